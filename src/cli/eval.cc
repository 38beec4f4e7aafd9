// trl eval: the loss of a model on the rows of each split, as an evaluation inside training measures it.
#include <fmt/format.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/open_runtime.h"
#include "cli/output.h"
#include "cli/signals.h"

namespace trl::cli {

namespace {

// A trainer wants a directory of its own, though nothing is saved here.
class ScratchDirectory {
 public:
  ScratchDirectory() : path_((std::filesystem::temp_directory_path() / "trl-eval-XXXXXX").string()) {
    if (mkdtemp(path_.data()) == nullptr)
      throw Failure(kFailed, fmt::format("{}: a directory cannot be made there; TMPDIR names another place",
                                         std::filesystem::temp_directory_path().string()));
  }
  ~ScratchDirectory() {
    std::error_code error;
    std::filesystem::remove_all(path_, error);
  }
  ScratchDirectory(const ScratchDirectory&) = delete;
  ScratchDirectory& operator=(const ScratchDirectory&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

void set(const Config& config, const char* key, const std::string& value) {
  Error error;
  check(trl_config_set(config.get(), key, value.c_str(), error.out()), error);
}

std::vector<std::string> names(const std::string& list) {
  std::vector<std::string> result;
  std::istringstream text(list + ",");
  for (std::string name; std::getline(text, name, ',');) {
    if (name.empty()) throw Failure(kUsage, fmt::format("--splits: '{}' has an empty name of a split", list));
    result.push_back(name);
  }
  return result;
}

nlohmann::ordered_json measure(Runtime& runtime, const Config& config, const Dataset& rows) {
  Error error;
  Trainer trainer;
  check(trl_trainer_create(runtime.get(), config.get(), rows.get(), rows.get(), trainer.out(), error.out()),
        error);
  const trl_metrics* metrics = nullptr;
  check(trl_trainer_evaluate(trainer.get(), &metrics, error.out()), error);
  nlohmann::ordered_json result;
  for (const char* name = trl_metrics_next(metrics, nullptr); name != nullptr;
       name = trl_metrics_next(metrics, name)) {
    double value = 0;
    trl_metrics_get(metrics, name, &value);
    if (std::string_view(name) == "eval_num_tokens") continue;  // of training, which does not happen here
    if (std::string_view(name).starts_with("eval_")) result[name] = value;
    if (std::string_view(name) == "eval_loss") result["eval_perplexity"] = std::exp(value);
  }
  return result;
}

// "test: loss 2.0312, perplexity 7.6233, mean_token_accuracy 0.5612"
std::string line_of(const std::string& split, const nlohmann::ordered_json& result) {
  std::string line;
  for (const char* name : {"loss", "perplexity", "mean_token_accuracy", "accuracy", "rewards/accuracies",
                           "rewards/margins", "margin"}) {
    const auto found = result.find(fmt::format("eval_{}", name));
    if (found != result.end())
      line += fmt::format("{}{} {:.4f}", line.empty() ? "" : ", ", name, found->get<double>());
  }
  return fmt::format("{}: {}\n", split, line);
}

}  // namespace

int eval(const Words& words) {
  Config config;
  Error error;
  check(trl_config_create(config.out(), error.out()), error);
  const std::string method = trainer_of(words);
  set(config, "method", method);
  std::optional<std::string> splits;
  bool json = false;
  const CommandLine line{
      "eval",
      "Measure a model on rows: loss, perplexity and token accuracy of each split, as an evaluation inside "
      "training does. --method dpo, kto or reward: the metrics of that trainer.",
      method,
      {"runtime"},
      {},
      {{"splits", "Splits of the dataset, separated by commas (default: the value of --dataset_test_split)",
        &splits}},
      {{"json", "Print one JSON object a split; so it is, too, where stdout is not a terminal", &json}}};
  if (parse(line, words, config)) return 0;
  for (const char* key : {"model_name_or_path", "dataset_name"}) {
    if (get(config, key).empty()) throw Failure(kUsage, fmt::format("--{} is needed", key));
  }
  const ScratchDirectory scratch;
  set(config, "output_dir", scratch.path());
  set(config, "resume_from_checkpoint", "null");
  for (const char* key : {"eval_strategy", "save_strategy", "load_best_model_at_end"}) set(config, key, "no");
  set(config, "report_to", "none");
  set(config, "sample_prompts", "null");
  Runtime runtime;
  open_runtime(config, runtime);
  Interrupt interrupt("stopped");
  interrupt.watch_calls(runtime.get());
  for (const std::string& split : names(splits.value_or(get(config, "dataset_test_split")))) {
    set(config, "dataset_train_split", split);
    Dataset rows, none;
    open_rows(config, runtime, rows, none);
    const nlohmann::ordered_json result = measure(runtime, config, rows);
    if (json || isatty(STDOUT_FILENO) == 0) {
      nlohmann::ordered_json record{{"split", split}};
      record.update(result);
      print(record.dump() + "\n");
    } else {
      print(line_of(split, result));
    }
  }
  return 0;
}

}  // namespace trl::cli
