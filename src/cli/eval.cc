// trl eval: the loss of a model on the rows of each split, as an evaluation inside training measures it, and
// the completions of sample_prompts.
#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>
#include <vector>

#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/open_runtime.h"
#include "cli/terminal.h"

namespace trl::cli {

namespace {

std::vector<std::string> names(const std::string& list) {
  std::vector<std::string> result;
  std::istringstream text(list + ",");
  for (std::string name; std::getline(text, name, ',');) {
    if (name.empty()) throw Failure(kUsage, fmt::format("--splits: '{}' has an empty name of a split", list));
    result.push_back(name);
  }
  return result;
}

constexpr const char* kSplitKey = "dataset_train_split";  // the key by which the library reads a split

// Opens the rows of each split, so that a missing one is an error before the model is opened. If nobody asked
// for a split, a file without a split test, the default, is the split train.
std::vector<std::unique_ptr<Dataset>> open_splits(const Config& config, const Runtime& runtime,
                                                  std::vector<std::string>& splits, bool asked) {
  std::vector<std::unique_ptr<Dataset>> all;
  for (const std::string& split : splits) {
    set(config, kSplitKey, split);
    Error error;
    Dataset none;
    Dataset& rows = *all.emplace_back(std::make_unique<Dataset>());
    const trl_status status =
        trl_dataset_open_config(runtime.get(), config.get(), rows.out(), none.out(), error.out());
    const char* const key = trl_error_key(error.get());
    if (key != nullptr && std::string_view(key) == kSplitKey) {
      if (!asked && !std::filesystem::is_directory(get(config, "dataset_name"))) {
        splits = {"train"};
        return open_splits(config, runtime, splits, true);
      }
      std::string message = trl_error_message(error.get());
      if (message.starts_with(kSplitKey)) message.replace(0, std::string_view(kSplitKey).size(), "--splits");
      throw Failure(kUsage, message);
    }
    check(status, error);
  }
  return all;
}

// Opens the rows that a run with this configuration evaluates, if eval_dataset_name or test_split_size names
// them.
std::unique_ptr<Dataset> rows_of_run(const Config& config, const Runtime& runtime) {
  if (get(config, "eval_dataset_name").empty() && get(config, "test_split_size").empty()) return nullptr;
  Error error;
  Dataset train;
  auto rows = std::make_unique<Dataset>();
  check(trl_dataset_open_config(runtime.get(), config.get(), train.out(), rows->out(), error.out()), error);
  return rows;
}

nlohmann::ordered_json measure(const Evaluator& evaluator, const Dataset& rows) {
  Error error;
  const trl_metrics* metrics = nullptr;
  check(trl_evaluator_evaluate(evaluator.get(), rows.get(), &metrics, error.out()), error);
  nlohmann::ordered_json result;
  for (const char* name = trl_metrics_next(metrics, nullptr); name != nullptr;
       name = trl_metrics_next(metrics, name)) {
    double value = 0;
    trl_metrics_get(metrics, name, &value);
    result[name] = value;
  }
  return result;
}

// Returns "test: loss 2.0312, perplexity 7.6233, mean_token_accuracy 0.5612".
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

void report(const std::string& split, const nlohmann::ordered_json& result, bool json) {
  nlohmann::ordered_json record{{"split", split}};
  record.update(result);
  print(json ? record.dump() + "\n" : line_of(split, result));
}

// Prints the completions of sample_prompts, if there are any.
void print_completions(const Evaluator& evaluator, bool json) {
  Error error;
  const char* text = nullptr;
  check(trl_evaluator_complete(evaluator.get(), &text, error.out()), error);
  for (const auto& one : nlohmann::ordered_json::parse(text)) {
    const auto& prompt = one["prompt"];
    const auto& asked = prompt.is_array() ? prompt.back()["content"] : prompt;
    const std::string shown = asked.is_string() ? asked.get<std::string>() : asked.dump();
    print(json ? one.dump() + "\n"
               : fmt::format("\n{}\n-> {}\n", shown, one["completion"].get<std::string>()));
  }
}

}  // namespace

int eval(const Words& words) {
  Config config;
  Error error;
  const std::string method = trainer_of(words);
  set(config, "method", method);
  std::optional<std::string> splits;
  bool json = false;
  const CommandLine line{
      "eval",
      "Measure a model on rows: loss, perplexity and token accuracy of each split, as an evaluation inside "
      "training does, and the completions of sample_prompts. --method " +
          other_trainers() + ": the metrics of that trainer.",
      method,
      {"runtime", "generate"},
      {},
      {{"splits",
        "Splits of the dataset, separated by commas (default: the rows that a run evaluates, by "
        "--eval_dataset_name, --test_split_size or --dataset_test_split; for a file, train)",
        &splits}},
      {{"json", "Print one JSON object a split; so it is, too, where stdout is not a terminal", &json}}};
  if (parse(line, words, config)) return 0;
  for (const char* key : {"model_name_or_path", "dataset_name"})
    if (get(config, key).empty()) throw Failure(kUsage, fmt::format("--{} is needed", key));
  // a recipe may ask for evaluation rows
  for (const char* key : {"eval_strategy", "save_strategy", "load_best_model_at_end"}) set(config, key, "no");
  for (const char* key : {"lr_scheduler_type", "lr_scheduler_kwargs"})  // some need evaluations in a run
    unset(config, key);
  Runtime runtime;
  open_runtime(config, runtime);
  Interrupt interrupt("stopped");
  interrupt.watch_calls(runtime.get());
  const std::string test = get(config, "dataset_test_split");
  std::vector<std::string> wanted = names(splits.value_or(test));
  std::vector<std::unique_ptr<Dataset>> rows;
  if (auto of_run = splits ? nullptr : rows_of_run(config, runtime)) {
    wanted = {"test"};
    rows.push_back(std::move(of_run));
  } else {
    rows = open_splits(config, runtime, wanted, splits.has_value() || test != "test");
  }
  Evaluator evaluator;
  check(trl_evaluator_create(runtime.get(), config.get(), evaluator.out(), error.out()), error);
  const bool as_json = json || isatty(STDOUT_FILENO) == 0;
  for (size_t i = 0; i < wanted.size(); ++i) report(wanted[i], measure(evaluator, *rows[i]), as_json);
  print_completions(evaluator, as_json);
  return 0;
}

}  // namespace trl::cli
