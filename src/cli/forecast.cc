// trl estimate and trl profile: what a run would take, and how long the rows are. A run with --dry_run.
#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/arguments.h"
#include "cli/command_rewards.h"
#include "cli/commands.h"
#include "cli/keys.h"
#include "cli/open_runtime.h"
#include "cli/terminal.h"

namespace trl::cli {

namespace {

bool names_rows(const Config& config) {
  for (const char* key : {"dataset_name", "datasets", "dataset_mixture"}) {
    const std::string value = get(config, key);
    if (!value.empty() && value != "[]") return true;
  }
  return false;
}

// Sets the terminal's width; elsewhere the library's own width stays.
void fit_terminal(Config& config) {
  winsize size{};
  if (!get(config, "profile.width").empty() || isatty(STDOUT_FILENO) == 0) return;
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return;
  set(config, "profile.width", std::to_string(std::clamp<int>(size.ws_col, 60, 160)));
}

// Prints what the call writes: with json its first text, otherwise the second one.
template <typename Call>
int print_one(bool json, Call&& call) {
  Error error;
  const char* text = nullptr;
  check(call(json ? &text : nullptr, json ? nullptr : &text, error.out()), error);
  print(text);
  if (json) print("\n");
  return 0;
}

using Json = nlohmann::json;

// Writes a value so that YAML reads it back: a text with other characters than those of names and paths is
// quoted.
std::string yaml_value(const std::string& value, int32_t type) {
  constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./+-";
  const bool text = type == TRL_TYPE_TEXT || type == TRL_TYPE_CHOICE;
  if (!text || (!value.empty() && value.find_first_not_of(kPlain) == std::string::npos)) return value;
  return Json(value).dump(-1, ' ', false, Json::error_handler_t::replace);
}

// Returns whether the option's default shapes every run.
bool matters(std::string_view name, bool adapter) {
  constexpr std::string_view kAlways =
      "output_dir,dtype,bf16,max_length,packing,loss_type,beta,per_device_train_batch_size,gradient_"
      "accumulation_steps,num_train_epochs,max_steps,learning_rate,lr_scheduler_type,warmup_steps,optim,"
      "weight_decay,max_grad_norm,gradient_checkpointing,use_peft,seed,eval_strategy,save_strategy,save_"
      "steps,logging_steps,report_to";
  return contains(kAlways, name) ||
         (adapter && contains("lora_r,lora_alpha,lora_dropout,lora_target_modules", name));
}

// Prints "learning_rate: 1e-4  # recipe.yaml:3", one line per key, topic by topic: a file for --config. all:
// every key, not only those that are set or matter.
void print_configuration(const CommandLine& line, const Config& config, bool all) {
  std::string last;
  const bool adapter = get(config, "use_peft") == "true";
  print(fmt::format("# trl {}\n", line.trainer));
  for (const trl_option* key : keys_of(line)) {
    const char* const name = trl_option_name(key);
    if (std::string_view(name) == "method") continue;
    std::string where = origin_of(config, name);
    if (where == "set") where = "flag";
    if (where == "default" && !all && !matters(name, adapter)) continue;
    Error error;
    const char* value = nullptr;
    check(trl_config_get(config.get(), name, &value, error.out()), error);
    if (where != "default" && is_ignored(key, line.trainer, value)) where += "; ignored";
    if (topic(key) != last) print(fmt::format("\n# {}\n", topic(key)));
    last = topic(key);
    print(fmt::format("{}: {}  # {}\n", name, yaml_value(value, type_of(key, line.trainer)), where));
  }
}

// Checks evaluation rows, which trl_trainer_plan, called below, does not know.
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

// Returns "1 row", "2 rows"; for words that add es: "1 micro-batch", "2 micro-batches".
std::string counted(const Json& count, const std::string& one, const char* more = "s") {
  return count.dump() + " " + one + (count == 1 ? "" : more);
}

void print_rows(const Json& batch) {
  if (!batch["rows"].is_number()) return;
  print(fmt::format("rows       {} prepared, {} an epoch\n", batch["rows"].dump(),
                    counted(batch["batches_per_epoch"], "micro-batch", "es")));
}

void print_plan(const Json& plan) {
  print(fmt::format("steps      {}, of about {}; the longest row has {}\n", plan["steps"].dump(),
                    counted(plan["tokens_per_step"], "token"), plan["row_tokens"].dump()));
  print(fmt::format("memory     {} at the peak; {} parameters, {} of them trained\n",
                    bytes(plan["peak_bytes"].get<double>()), plan["parameters"].dump(),
                    plan["trained_parameters"].dump()));
  print(fmt::format("time       about {} at {:.0f} tokens/s\n", time_text(plan["seconds"].get<double>()),
                    plan["tokens_per_second"].get<double>()));
  const Json& disk = plan["disk"];
  std::string of_checkpoints;
  if (const Json& count = disk["checkpoints"]; count != 0)
    of_checkpoints = fmt::format(", {} for {}{}", bytes(disk["checkpoint_bytes"].get<double>()),
                                 count == 1 ? "" : "each of ", counted(count, "checkpoint"));
  print(fmt::format("disk       {} for the model{}; {} free\n", bytes(disk["model_bytes"].get<double>()),
                    of_checkpoints, bytes(disk["free_bytes"].get<double>())));
}

// Ends as the run would, if it is refused for lack of memory or disk.
void check_room(const Json& plan) {
  const Json& room = plan["room"];
  if (room.contains("warning")) spdlog::warn("{}", room["warning"].get<std::string>());
  if (const Json& disk = plan["disk"]; disk.contains("refused"))
    throw Failure(kFailed, disk["refused"]["message"].get<std::string>());
}

}  // namespace

int estimate(const Words& words) {
  Config config;
  bool json = false;
  const std::string trainer = trainer_of(words);
  set(config, "method", trainer);
  const CommandLine line{
      "estimate",
      "Tell what a run with the same options takes: memory by term, time, disk. --method " +
          other_trainers() + ": a run of that trainer, with its options and defaults.",
      trainer,
      {"runtime", "estimate", "generate"},
      {},
      {},
      {{"json", "Print the numbers as JSON", &json}}};
  if (parse(line, words, config)) return 0;
  if (get(config, "model_name_or_path").empty())
    throw Failure(kUsage, "--model_name_or_path is required: a model directory or a GGUF file");
  Runtime runtime;
  open_runtime(config, runtime);
  Dataset train, eval;
  if (names_rows(config)) open_rows(config, runtime, train, eval);
  return print_one(json, [&](const char** numbers, const char** text, trl_error** error) {
    return trl_trainer_plan(runtime.get(), config.get(), train.get(), numbers, text, error);
  });
}

int profile(const Words& words) {
  Config config;
  bool json = false;
  const CommandLine line{
      "profile",
      "Tell how long the rows of a dataset are in tokens, and what each max_length would cost.",
      default_trainer().name,
      {"profile", "runtime"},
      {},
      {},
      {{"json", "Print the numbers as JSON instead of the plot", &json}}};
  if (parse(line, words, config)) return 0;
  need_tokenizer(config);
  fit_terminal(config);
  if (get(config, "profile.peaks").empty()) set(config, "profile.peaks", "true");
  const OpenRows rows(config);
  return print_one(json, [&](const char** numbers, const char** text, trl_error** error) {
    return trl_dataset_get_profile(rows.train.get(), rows.tokenizer.get(), config.get(), numbers, text,
                                   error);
  });
}

void describe_run(const CommandLine& line, const Config& config, bool all) {
  Error error;
  print_configuration(line, config, all);
  // Turns off the dataset cache, which would be written, and other sets of options, which are not shown.
  for (const auto& [key, value] : {std::pair{"dataset_cache_dir", "null"}, {"estimate.compare", "[]"}})
    set(config, key, value);
  Runtime runtime;
  open_runtime(config, runtime);
  const Interrupt interrupt("stopped");  // nothing is written, so a signal quits at once
  check(trl_trainer_check(runtime.get(), config.get(), error.out()), error);
  check_rewards(config, has_key(line.trainer, "reward_funcs"));
  Dataset train, eval;
  open_rows(config, runtime, train, eval);
  if (config::find_method(line.trainer)->evaluates) check_evaluation(config, eval);
  Tokenizer tokenizer;
  open_tokenizer(config, runtime, tokenizer);
  const bool knows_batches = !config::find_method(line.trainer)->generates;  // before completions are written
  const auto first_batch = [&](const Dataset& rows) {
    Json batch;
    const auto keep = [](void* any, const char* json, size_t size) {
      *static_cast<Json*>(any) = Json::parse(json, json + size);
      return int32_t{0};
    };
    check(
        trl_dataset_visit_batches(rows.get(), tokenizer.get(), config.get(), 0, 1, keep, &batch, error.out()),
        error);
    return batch;
  };
  Json batch = {{"rows", nullptr}};
  if (knows_batches) batch = first_batch(train);
  if (knows_batches && eval.get() != nullptr) first_batch(eval);
  const char* text = nullptr;
  check(trl_trainer_plan(runtime.get(), config.get(), train.get(), &text, nullptr, error.out()), error);
  const Json plan = Json::parse(text);
  print("\n");
  print_rows(batch);
  print_plan(plan);
  check_room(plan);
  print("nothing was written; without --dry_run the run starts\n");
}

}  // namespace trl::cli
