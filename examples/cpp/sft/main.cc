// Fine-tunes a model on a JSONL file and shows what it writes before and after: sft MODEL ROWS OUTPUT
// [KEY=VALUE ...]. MODEL is a Hugging Face directory or a GGUF file; every key of `trl options sft` may
// follow. The language is C++11.
#include <iostream>
#include <string>
#include <trl/trl.hpp>

namespace {

const char kPrompt[] = "The kernel";

void on_log(std::int32_t level, trl::TextView component, trl::TextView text) {
  if (level >= trl::LogLevel::warning) std::cerr << component << ": " << text << "\n";
}

// Called on this thread, between the steps. Answer::stop, save and evaluate as results would ask for more.
void on_event(const trl::Event& event) {
  if (event.kind() == trl::EventKind::step)
    std::cout << "step " << event["step"] << " of " << event["max_steps"] << ": loss " << event["loss"]
              << "\n";
}

void print_completion(trl::Trainer& trainer, const trl::Config& config) {
  std::cout << kPrompt << " ->";
  trl::Generator generator = trainer.generator();
  for (const trl::Token& token : generator.stream(kPrompt, config)) std::cout << token.text << std::flush;
  std::cout << "\n";
}

void set_pair(trl::Config& config, const std::string& pair) {
  const std::size_t equals = pair.find('=');
  if (equals == std::string::npos) throw std::invalid_argument("KEY=VALUE is needed, not " + pair);
  config.set(pair.substr(0, equals), pair.substr(equals + 1));
}

void run(int argc, char** argv) {
  trl::Config config{{"model_name_or_path", argv[1]},    {"output_dir", argv[3]}, {"learning_rate", 1e-3},
                     {"per_device_train_batch_size", 4}, {"max_steps", 10},       {"save_strategy", "no"},
                     {"generate.max_new_tokens", 16}};
  for (int i = 4; i < argc; ++i) set_pair(config, argv[i]);
  trl::Runtime runtime(config);
  runtime.set_log(on_log);
  const trl::Dataset rows(argv[2], config, &runtime);
  trl::Trainer trainer(config, rows, nullptr, &runtime);
  print_completion(trainer, config);
  trainer.train(on_event);
  trainer.save();
  print_completion(trainer, config);
  std::cout << "saved in " << argv[3] << "\n";
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) {
    std::cerr << "usage: " << argv[0] << " MODEL ROWS OUTPUT [KEY=VALUE ...]\n";
    return 2;
  }
  try {
    run(argc, argv);
    return 0;
  } catch (const trl::Error& error) {
    std::cerr << "error " << error.status() << ": " << error.what() << "\n";
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
  }
  return 1;
}
