// Runs whose adapter answers while it is trained (serve_share), and clients that ask.
#pragma once
#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "engine/requests.h"

namespace host {

inline constexpr const char* kAsked[] = {"The small kernel", "One",
                                         "A second, longer prompt of some words: it"};

inline bool happens(const std::function<bool()>& holds) {
  for (int i = 0; i < 20000; ++i) {
    if (holds()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return false;
}

inline host::Settings adapted(const std::string& output_dir, int steps, const host::Settings& more = {}) {
  const host::Settings own = {{"use_peft", "true"},
                              {"lora_r", "4"},
                              {"lora_target_modules", "all-linear"},
                              {"learning_rate", "0.01"},
                              {"save_strategy", "steps"},
                              {"save_steps", "1"},
                              {"save_only_model", "true"},
                              {"report_to", "none"},
                              {"max_steps", std::to_string(steps)}};
  return host::with(host::with(host::tiny(output_dir), own), more);
}

struct TaughtRun {
  host::Scratch scratch;
  host::Dataset rows = host::rows(host::read_file(host::golden("data/datasets/train_lm.jsonl")));
  host::Trainer trainer;
  host::Model model;
  host::Generator generator;
  explicit TaughtRun(int steps, const host::Settings& more = {})
      : trainer(host::trainer(adapted(scratch / "out", steps, more), rows.get())),
        model(host::model_of(trainer.get())),
        generator(host::generator_of(model.get())) {}
  trl_status train(trl_error** error = nullptr) {
    return trl_trainer_train(trainer.get(), nullptr, nullptr, error);
  }
  std::vector<double> losses() const {
    std::vector<double> losses;
    const Json state = host::state(trainer.get());
    for (const Json& record : state["log_history"])
      if (record.contains("loss")) losses.push_back(record["loss"]);
    return losses;
  }
  std::map<std::string, std::string> weights() const {
    std::map<std::string, std::string> files = host::files_of(scratch / "out");
    std::erase_if(files, [](const auto& file) { return !file.first.ends_with(".safetensors"); });
    return files;
  }
};

inline host::Settings with_share(const char* swap = "request") {
  return {{"serve_share", "0.5"}, {"serve_swap", swap}};
}

struct NamedAnswer {
  size_t prompt;
  std::vector<int32_t> ids;
  Json weights;
};

// Asks without a pause until told to stop, two requests at a time; each has to end with its last token.
class Questions {
 public:
  explicit Questions(trl_generator* generator) : generator_(generator), thread_([this] { ask(); }) {}
  ~Questions() { stop(); }
  void stop() {
    over_ = true;
    if (thread_.joinable()) thread_.join();
  }
  const std::vector<NamedAnswer>& answers() const { return answers_; }  // after stop()
  size_t count() const { return count_; }

 private:
  void ask() {
    size_t asked = 0;
    std::map<size_t, size_t> open;  // prompts by number
    const auto add = [&] {
      const size_t prompt = asked++ % std::size(kAsked);
      open[host::add(generator_, kAsked[prompt],
                     {{"generate.max_new_tokens", "8"}, {"generate.ignore_eos", "true"}})] = prompt;
    };
    while (!over_ || !open.empty()) {
      while (!over_ && open.size() < 2) add();
      Error error;
      const trl_status status = trl_generator_step(generator_, nullptr, nullptr, error);
      ASSERT_GE(status, TRL_OK) << error.message();
      for (auto one = open.begin(); one != open.end();) {
        const Json taken = Json(host::taken(generator_, one->first));
        if (taken["finish_reason"].is_null()) {
          ++one;
          continue;
        }
        EXPECT_EQ(taken["finish_reason"], "length");
        answers_.push_back({one->second, taken["token_ids"].get<std::vector<int32_t>>(), taken["weights"]});
        ++count_;
        one = open.erase(one);
      }
    }
  }
  trl_generator* const generator_;
  std::atomic<bool> over_{false};
  std::atomic<size_t> count_{0};
  std::vector<NamedAnswer> answers_;
  std::thread thread_;
};

}  // namespace host
