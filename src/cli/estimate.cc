// trl estimate: predicts the memory, time and disk of a run.
#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/open_runtime.h"
#include "cli/output.h"
#include "cli/trainers.h"

namespace trl::cli {

namespace {

bool names_rows(const Config& config) {
  for (const char* key : {"dataset_name", "datasets", "dataset_mixture"}) {
    const std::string value = get(config, key);
    if (!value.empty() && value != "[]") return true;
  }
  return false;
}

}  // namespace

int estimate(const Words& words) {
  Config config;
  Error error;
  bool json = false;
  const std::string trainer = trainer_of(words);
  set(config, "method", trainer);
  const CommandLine line{
      "estimate",
      "Tell what a run with the same options takes: memory by term, time, disk. --method " +
          other_trainers() + ": a run of that trainer, with its options and defaults.",
      trainer,
      {"runtime", "estimate"},
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
  const char* text = nullptr;
  check(trl_trainer_plan(runtime.get(), config.get(), train.get(), json ? &text : nullptr,
                         json ? nullptr : &text, error.out()),
        error);
  print(text);
  if (json) print("\n");
  return 0;
}

}  // namespace trl::cli
