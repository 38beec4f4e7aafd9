// Answers requests while it learns from corrections: learn_while_serving MODEL OUTPUT. MODEL is a Hugging
// Face directory or a GGUF file; OUTPUT gets the adapter. The language is C++11.
#include <atomic>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <mutex>
#include <string>
#include <thread>
#include <trl/trl.hpp>
#include <utility>
#include <vector>

namespace {

const char kQuestion[] = "The kernel answers the", kAnswer[] = " driver at noon";

// The facts that the program was told: the rows of the run. Training reads about a thousand rows ahead, so it
// repeats the facts told so far.
class Told {
 public:
  void add(const std::string& prompt, const std::string& completion) {
    const std::lock_guard<std::mutex> lock(mutex_);
    rows_.emplace_back(prompt, completion);
  }
  bool next(trl::Record& record) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const std::pair<std::string, std::string>& row = rows_[next_++ % rows_.size()];
    record.set_text("prompt", row.first);
    record.set_text("completion", row.second);
    return true;
  }

 private:
  std::mutex mutex_;
  std::vector<std::pair<std::string, std::string>> rows_;
  std::size_t next_ = 0;
};

// Trains on a thread of its own until it is cancelled.
class Training {
 public:
  explicit Training(trl::Trainer& trainer) : trainer_(trainer), thread_([this] { run(); }) {}
  ~Training() { stop(); }
  bool over() const { return over_; }
  void stop() {
    trainer_.cancel();
    if (thread_.joinable()) thread_.join();
  }
  void check() const {
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  void run() {
    try {
      trainer_.train();
    } catch (const trl::Error& error) {
      if (error.status() != TRL_E_CANCELLED) failure_ = std::current_exception();
    }
    over_ = true;
  }
  trl::Trainer& trainer_;
  std::exception_ptr failure_;
  std::atomic<bool> over_{false};
  std::thread thread_;
};

// One request, token by token; the steps of the trainer go on meanwhile.
trl::Completion ask(trl::Generator& generator, const trl::Config& options) {
  const std::size_t number = generator.add(kQuestion, options);
  while (generator.step()) continue;
  return generator.take(number)[0];
}

// The step whose adapter wrote the last token.
int last_version(const trl::Completion& completion) {
  const std::string name = "\"last_version\":";
  const std::size_t at = completion.json.find(name);
  return at == std::string::npos ? -1 : std::atoi(completion.json.c_str() + at + name.size());
}

bool is_right(const std::string& text) { return text.compare(0, sizeof kAnswer - 1, kAnswer) == 0; }

void run(const char* model, const char* output) {
  const trl::Config config{{"model_name_or_path", model},
                           {"output_dir", output},
                           {"dtype", "float32"},
                           {"bf16", false},
                           {"use_peft", true},
                           {"lora_r", 8},
                           {"lora_target_modules", "all-linear"},
                           {"serve_share", 0.5},
                           {"serve_swap", "token"},
                           {"dataset_streaming", true},
                           {"train_sampling_strategy", "sequential"},
                           {"learning_rate", 1e-2},
                           {"lr_scheduler_type", "constant"},
                           {"max_steps", 2000},
                           {"per_device_train_batch_size", 16},
                           {"save_strategy", "no"},
                           {"report_to", "none"},
                           {"logging_strategy", "no"},
                           {"generate.max_new_tokens", 8}};
  Told told;
  told.add("The scheduler", " picks a task.");
  const trl::Dataset rows =
      trl::Dataset::from_callback([&](trl::Record record) { return told.next(record); }, [] {}, config);
  trl::Trainer trainer(config, rows);
  trl::Generator generator = trainer.generator();
  Training training(trainer);
  std::string last;
  int asked = 0;
  for (; !is_right(last) && !training.over(); ++asked) {
    if (asked == 20) {
      std::cout << "corrected: " << kQuestion << kAnswer << "\n";
      told.add(kQuestion, kAnswer);
    }
    const trl::Completion answer = ask(generator, config);
    if (answer.text != last)
      std::cout << "step " << last_version(answer) << ": " << kQuestion << answer.text << "\n";
    last = answer.text;
  }
  training.stop();
  training.check();
  if (!is_right(last)) throw std::runtime_error("the run ended before it was learned");
  trainer.save();
  std::cout << asked << " requests, none lost; the adapter is in " << output << "\n";
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: " << argv[0] << " MODEL OUTPUT\n";
    return 2;
  }
  try {
    run(argv[1], argv[2]);
    return 0;
  } catch (const trl::Error& error) {
    std::cerr << "error " << error.status() << ": " << error.what() << "\n";
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
  }
  return 1;
}
