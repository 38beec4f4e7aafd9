// Teaches a model sums by GRPO, with a reward in C++: grpo MODEL OUTPUT [KEY=VALUE ...]. MODEL is a Hugging
// Face directory or a GGUF file. A short SFT shows it the sums of two digits with their answers; OUTPUT/sft
// then answers some. From there GRPO shows it no answer, and rewards completions that are the right number.
// Every key of `trl options grpo` may follow. The language is C++11.
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <trl/trl.hpp>

namespace {

using Json = nlohmann::json;

// The hundred sums from 0+0= to 9+9=.
std::string sums(bool answered) {
  std::string lines;
  for (int a = 0; a < 10; ++a)
    for (int b = 0; b < 10; ++b) {
      Json row = {{"prompt", std::to_string(a) + "+" + std::to_string(b) + "="}};
      if (answered) row["completion"] = std::to_string(a + b);
      lines += row.dump() + "\n";
    }
  return lines;
}

// Called once for each generation, with all of its completions: 1 for one that is the sum and nothing else.
void check_sums(trl::Rollout rollout) {
  for (std::size_t i = 0; i < rollout.size(); ++i) {
    const Json row = Json::parse(rollout[i]);
    const std::string prompt = row.at("prompt");
    std::size_t plus = 0;
    const int a = std::stoi(prompt, &plus), b = std::stoi(prompt.substr(plus + 1));
    rollout.set_reward(i, row.at("completion") == std::to_string(a + b) ? 1 : 0);
  }
}

void on_event(const trl::Event& event) {
  if (event.kind() != trl::EventKind::step || event.metrics().find("reward") == event.metrics().end()) return;
  std::printf("step %3.0f: mean reward %.3f\n", event["step"], event["reward"]);
  std::fflush(stdout);
}

void train(trl::Config config, const std::string& model, const std::string& output, bool by_rewards) {
  config.set("model_name_or_path", model);
  config.set("output_dir", output);
  config.set("save_strategy", "no");
  config.set("bf16", false);
  const trl::Dataset rows = trl::Dataset::from_buffer("jsonl", sums(!by_rewards), config);
  trl::Trainer trainer(config, rows);
  if (by_rewards) trainer.add_reward("check_sums", check_sums);
  trainer.train(on_event);
  trainer.save();
}

void run(int argc, char** argv) {
  const std::string output = argv[2], start = output + "/sft";
  train({{"method", "sft"}, {"learning_rate", 2e-3}, {"max_steps", 70}, {"per_device_train_batch_size", 50}},
        argv[1], start, false);
  trl::Config config{
      {"method", "grpo"},     {"learning_rate", 2e-3},
      {"max_steps", 100},     {"per_device_train_batch_size", 400},  // 8 for each of 50 prompts
      {"num_generations", 8}, {"max_completion_length", 4}};
  for (int i = 3; i < argc; ++i) {
    const std::string pair = argv[i];
    const std::size_t equals = pair.find('=');
    if (equals == std::string::npos) throw std::invalid_argument("KEY=VALUE is needed, not " + pair);
    config.set(pair.substr(0, equals), pair.substr(equals + 1));
  }
  train(std::move(config), start, output, true);
  std::cout << "saved in " << output << "\n";
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::cerr << "usage: " << argv[0] << " MODEL OUTPUT [KEY=VALUE ...]\n";
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
