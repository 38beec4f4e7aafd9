// trl TRAINER: reads a configuration, rows and a model; trains with progress; saves the tuned model
// in output_dir.
#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <vector>

#include "cli/arguments.h"
#include "cli/command_rewards.h"
#include "cli/commands.h"
#include "cli/completions_table.h"
#include "cli/keys.h"
#include "cli/open_runtime.h"
#include "cli/progress.h"
#include "cli/terminal.h"

namespace trl::cli {

namespace {

// Sets the environment variables of `env:` in a configuration file, as TRL's launcher does.
void export_environment(const Config& config) {
  const std::string text = get(config, "env");
  if (text.empty()) return;
  const nlohmann::json variables = nlohmann::json::parse(text);
  for (const auto& [name, value] : variables.items()) {
    const std::string plain = value.is_string() ? value.get<std::string>() : value.dump();
    if (setenv(name.c_str(), plain.c_str(), 1) != 0)
      throw Failure(kUsage, fmt::format("env: '{}' is not a name of an environment variable", name));
  }
}

struct Shown {
  Progress progress;
  bool records_as_json;  // stdout is not a terminal
  bool quiet;
  std::string output;
};

int32_t on_event(void* user_data, int32_t event, const trl_metrics* metrics) {
  auto& [progress, as_json, quiet, output] = *static_cast<Shown*>(user_data);
  if (event == TRL_ON_STEP) progress.on_step(metrics);
  if (event == TRL_ON_LOG) {
    clear_line();
    if (as_json || !quiet)
      print(as_json ? json_record(metrics) : short_record(metrics, columns(STDOUT_FILENO)));
    const char* const completions = trl_metrics_text(metrics, "completions");
    if (completions != nullptr && !quiet) {
      clear_line();
      std::fputs(completions_table(completions, columns(STDERR_FILENO)).c_str(), stderr);
    }
    progress.on_log(metrics);
  }
  if (event == TRL_ON_SAVE) {
    double step = 0;
    trl_metrics_get(metrics, "step", &step);
    clear_line();
    spdlog::info("saved {}/checkpoint-{:.0f}", output, step);
  }
  return 0;
}

void require(const Config& config, const char* key, const char* what) {
  if (get(config, key).empty()) throw Failure(kUsage, fmt::format("--{} is required: {}", key, what));
}

// Makes output_dir, so that a run fails before its first step if the model could not be saved at the end;
// takes away at its own end what it has made, if nothing was written there.
class OutputFolder {
 public:
  explicit OutputFolder(const std::string& path) {
    std::error_code error;
    for (std::filesystem::path at = path; !at.empty() && !std::filesystem::exists(at, error);
         at = at.parent_path())
      made_.push_back(at);
    std::filesystem::create_directories(path, error);
    if (!error && access(path.c_str(), W_OK) == 0 && std::filesystem::is_directory(path)) return;
    leave();
    throw Failure(kFailed,
                  fmt::format("output_dir: {} cannot be written: {}", path,
                              error ? error.message() : std::string("it is not a writable directory")));
  }
  ~OutputFolder() { leave(); }
  OutputFolder(const OutputFolder&) = delete;
  OutputFolder& operator=(const OutputFolder&) = delete;

 private:
  void leave() const {
    for (const std::filesystem::path& folder : made_) rmdir(folder.c_str());  // an empty one alone
  }

  std::vector<std::filesystem::path> made_;  // the innermost one first
};

void warn_of_own_directory(const std::string& model, const std::string& output) {
  std::error_code error;
  if (std::filesystem::equivalent(model, output, error))
    spdlog::warn(
        "output_dir is the model's own directory: its weights will be replaced by the tuned ones at the end");
}

int64_t global_step(const Trainer& trainer) {
  Error error;
  const char* state = nullptr;
  check(trl_trainer_describe(trainer.get(), &state, error.out()), error);
  return nlohmann::json::parse(state)["global_step"].get<int64_t>();
}

// Writes a checkpoint next to the others and says how to use it. why: the run ended: "interrupted".
void keep(const Trainer& trainer, const Config& config, const char* why) {
  Error error;
  Config options;
  set(options, "save.kind", "checkpoint");
  check(trl_trainer_save(trainer.get(), nullptr, options.get(), error.out()), error);
  const int64_t step = global_step(trainer);
  const std::string path = fmt::format("{}/checkpoint-{}", get(config, "output_dir"), step);
  if (get(config, "save_only_model") == "true") {
    spdlog::warn(
        "{}: the model as it stands is in {}, without the optimizer's state (save_only_model). To continue "
        "from these weights: --model_name_or_path {}",
        why, path, path);
  } else {
    spdlog::warn(
        "{} after step {}, which is saved now. To continue: the same command with --resume_from_checkpoint "
        "{}",
        why, step, path);
  }
}

// Says how to go on if a row, a reward or a recorded completion ended training, which must not cost the steps
// already done. begun_at: the step that the run began at.
void go_on_after(trl_status status, const Trainer& trainer, const Config& config, int64_t begun_at) {
  if (status != TRL_E_FORMAT && status != TRL_E_IO && status != TRL_E_NOT_FOUND && status != TRL_E_CALLBACK &&
      status != TRL_E_INVALID_CONFIG)
    return;
  if (global_step(trainer) > begun_at) {
    try {
      keep(trainer, config, "failed");
    } catch (const Failure& failure) {  // the run's own error is told as well
      spdlog::error("no checkpoint was saved: {}", failure.what());
    }
    return;
  }
  if (begun_at == 0) return;
  std::string from = get(config, "resume_from_checkpoint");
  if (from == "true" || from == "auto")
    from = fmt::format("{}/checkpoint-{}", get(config, "output_dir"), begun_at);
  spdlog::warn("no step was made after {}. To continue: the same command with --resume_from_checkpoint {}",
               from, from);
}

std::string cache_directory() {
  const char* const cache = std::getenv("XDG_CACHE_HOME");
  if (cache != nullptr && *cache == '/') return std::string(cache) + "/trl";  // a relative one does not count
  const char* const home = std::getenv("HOME");
  return home != nullptr && *home != '\0' ? std::string(home) + "/.cache/trl" : std::string();
}

// Returns "2.1 GB are needed, 0.3 GB are free".
std::string room_for(const Runtime& runtime, const Config& config) {
  Error error;
  const char* text = nullptr;
  if (trl_trainer_plan(runtime.get(), config.get(), nullptr, &text, nullptr, error.out()) != TRL_OK)
    return "";
  const nlohmann::json disk = nlohmann::json::parse(text)["disk"];
  return fmt::format("{:.3g} GB are needed, {:.3g} GB are free", disk["model_bytes"].get<double>() / 1e9,
                     disk["free_bytes"].get<double>() / 1e9);
}

// Saves the result; the run's end is not lost for lack of room, because a person at the terminal can make
// some.
void save(const Runtime& runtime, const Trainer& trainer, const Config& config) {
  for (;;) {
    Error error;
    const trl_status status = trl_trainer_save(trainer.get(), nullptr, nullptr, error.out());
    clear_line();
    if (status != TRL_E_IO || isatty(STDIN_FILENO) == 0 || isatty(STDERR_FILENO) == 0)
      return check(status, error);
    spdlog::error("the model could not be saved: {}", trl_error_message(error.get()));
    spdlog::error("{}; make room, then press Enter to try again (Ctrl-C quits)", room_for(runtime, config));
    for (char key = 0; key != '\n';)
      if (read(STDIN_FILENO, &key, 1) <= 0) return check(status, error);
  }
}

// Sets the method before the keys: it decides their defaults and the values that they accept.
int run_command(const std::string& command, const std::string& method, const std::string& summary,
                const Words& words) {
  Config config;
  Error error;
  set(config, "method", method);
  bool dry = command == "validate", all = false;
  const CommandLine line{command,
                         summary,
                         method,
                         {"runtime", "generate"},
                         {},
                         {},
                         {{"dry_run", "Print what the run would be, write nothing", &dry},
                          {"all", "Every key, in what --dry_run prints", &all}}};
  if (parse(line, words, config)) return 0;
  set(config, "method", method);
  require(config, "model_name_or_path", "a model directory or a GGUF file");
  const std::string given = get(config, "output_dir"), output = given.empty() ? "trainer_output" : given;
  warn_of_own_directory(get(config, "model_name_or_path"), output);
  if (dry) return describe_run(line, config, all), 0;
  if (all) throw Failure(kUsage, "--all prints the keys of a run that is not made: give --dry_run as well");
  set(config, "output_dir", output);
  if (get(config, "dataset_cache_dir").empty() && !cache_directory().empty())
    set(config, "dataset_cache_dir", cache_directory());
  export_environment(config);
  const OutputFolder folder(output);

  Runtime runtime;
  open_runtime(config, runtime);
  Dataset train, eval;
  Trainer trainer;
  Interrupt interrupt("stopped before the first step: there is nothing to save");
  check(trl_trainer_check(runtime.get(), config.get(), error.out()), error);
  check_rewards(config, has_key(method, "reward_funcs"));
  open_rows(config, runtime, train, eval);
  check(trl_trainer_create(runtime.get(), config.get(), train.get(), eval.get(), trainer.out(), error.out()),
        error);
  const CommandRewards programs(config, trainer);
  clear_line();

  const int64_t begun_at = global_step(trainer);
  interrupt.watch(trainer.get());
  const bool quiet = get(config, "quiet") == "true";
  Shown shown{Progress(!quiet && get(config, "disable_tqdm") != "true"), isatty(STDOUT_FILENO) == 0, quiet,
              output};
  const trl_status status = trl_trainer_train(trainer.get(), on_event, &shown, error.out());
  shown.progress.finish();
  if (status == TRL_E_CANCELLED && Interrupt::signal_number() != 0) {
    keep(trainer, config, "interrupted");
    return 128 + Interrupt::signal_number();
  }
  go_on_after(status, trainer, config, begun_at);
  check(status, error);
  save(runtime, trainer, config);
  spdlog::info("saved in {}", output);
  return 0;
}

}  // namespace

int validate(const Words& words) {
  return run_command("validate", trainer_of(words),
                     "Print what a run of --method would be, and what is wrong with it; write nothing.",
                     words);
}

int train(const config::MethodRow& trainer, const Words& words) {
  return run_command(command_of(trainer), trainer.name, fmt::format("{}, with TRL's options.", trainer.about),
                     words);
}

}  // namespace trl::cli
