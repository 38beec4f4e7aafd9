#include "cli/dry_run.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/keys.h"
#include "cli/open_runtime.h"
#include "cli/output.h"
#include "cli/signals.h"
#include "cli/terminal.h"

namespace trl::cli {

namespace {

using Json = nlohmann::json;

std::string origin_of(const Config& config, const char* key) {
  Error error;
  const char* origin = nullptr;
  check(trl_config_get_origin(config.get(), key, &origin, error.out()), error);
  return std::string_view(origin) == "set" ? "flag" : origin;
}

// As YAML reads it back: a text with other characters than those of names and paths is quoted.
std::string yaml_value(const std::string& value, int32_t type) {
  constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./+-";
  const bool text = type == TRL_TYPE_TEXT || type == TRL_TYPE_CHOICE;
  if (!text || (!value.empty() && value.find_first_not_of(kPlain) == std::string::npos)) return value;
  return Json(value).dump(-1, ' ', false, Json::error_handler_t::replace);
}

// "learning_rate: 1e-4  # recipe.yaml:3", a line a key, topic by topic: a file for --config.
void print_configuration(const CommandLine& line, const Config& config) {
  std::string last;
  print(fmt::format("# trl {}\n", line.trainer));
  for (const trl_option* key : keys_of(line)) {
    const char* const name = trl_option_name(key);
    if (std::string_view(name) == "method") continue;
    std::string where = origin_of(config, name);
    if (where == "default" && !mark(key).empty()) continue;  // no value of it does more than the default
    Error error;
    const char* value = nullptr;
    check(trl_config_get(config.get(), name, &value, error.out()), error);
    if (where != "default" && mark(key) == "ignored" && value != default_of(key, line.trainer))
      where += "; ignored";
    if (topic(key) != last) print(fmt::format("\n# {}\n", topic(key)));
    last = topic(key);
    print(fmt::format("{}: {}  # {}\n", name, yaml_value(value, type_of(key, line.trainer)), where));
  }
}

// trl_trainer_plan, which is asked below, knows nothing of evaluation rows.
void check_evaluation(const Config& config, const Dataset& eval) {
  if (eval.get() != nullptr) return;
  const std::string when = get(config, "eval_strategy");
  if (when == "no" && get(config, "eval_on_start") != "true") return;
  throw Failure(kUsage, fmt::format("{} needs an evaluation dataset (eval_dataset_name)",
                                    when == "no" ? "eval_on_start" : "eval_strategy: " + when));
}

std::string bytes(double count) {
  constexpr const char* kUnits[] = {"B", "kB", "MB", "GB", "TB"};
  size_t unit = 0;
  for (; count >= 999.5 && unit + 1 < std::size(kUnits); ++unit) count /= 1000;
  return fmt::format("{:.3g} {}", count, kUnits[unit]);
}

void print_rows(const Json& batch) {
  if (!batch["rows"].is_number()) return;
  print(fmt::format("rows       {} prepared, {} micro-batches an epoch\n", batch["rows"].dump(),
                    batch["batches_per_epoch"].dump()));
}

void print_plan(const Json& plan) {
  print(fmt::format("steps      {}, of about {} tokens; the longest row has {}\n", plan["steps"].dump(),
                    plan["tokens_per_step"].dump(), plan["row_tokens"].dump()));
  print(fmt::format("memory     {} at the peak; {} parameters, {} of them trained\n",
                    bytes(plan["peak_bytes"].get<double>()), plan["parameters"].dump(),
                    plan["trained_parameters"].dump()));
  print(fmt::format("time       about {} at {:.0f} tokens/s\n", duration(plan["seconds"].get<double>()),
                    plan["tokens_per_second"].get<double>()));
  const Json& disk = plan["disk"];
  const auto checkpoints = disk["checkpoints"].get<int64_t>();
  print(fmt::format("disk       {} for the model, {} for each of {} checkpoint{}; {} free\n",
                    bytes(disk["model_bytes"].get<double>()), bytes(disk["checkpoint_bytes"].get<double>()),
                    checkpoints, checkpoints == 1 ? "" : "s", bytes(disk["free_bytes"].get<double>())));
}

}  // namespace

void describe_run(const CommandLine& line, const Config& config) {
  Error error;
  print_configuration(line, config);
  check(trl_config_set(config.get(), "dataset_cache_dir", "null", error.out()),
        error);  // which would be written
  Runtime runtime;
  open_runtime(config, runtime);
  Interrupt interrupt("stopped");
  interrupt.watch_calls(runtime.get());
  check(trl_trainer_check(runtime.get(), config.get(), error.out()), error);
  Dataset train, eval;
  open_rows(config, runtime, train, eval);
  check_evaluation(config, eval);
  Tokenizer tokenizer;
  open_tokenizer(config, runtime, tokenizer);
  const char* text = nullptr;
  check(trl_dataset_get_batch(train.get(), tokenizer.get(), config.get(), 0, &text, error.out()), error);
  const Json batch = Json::parse(text);
  if (eval.get() != nullptr)
    check(trl_dataset_get_batch(eval.get(), tokenizer.get(), config.get(), 0, &text, error.out()), error);
  check(trl_trainer_plan(runtime.get(), config.get(), train.get(), &text, nullptr, error.out()), error);
  print("\n");
  print_rows(batch);
  print_plan(Json::parse(text));
  print("nothing was written; without --dry_run the run starts\n");
}

}  // namespace trl::cli
