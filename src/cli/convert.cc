// trl convert: a model directory into a GGUF file, and back.
#include <spdlog/spdlog.h>

#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/interrupt.h"
#include "cli/log.h"
#include "cli/output.h"

namespace trl::cli {

int convert(const Words& words) {
  Config config;
  Error error;
  check(trl_config_create(config.out(), error.out()), error);
  std::optional<std::string> output;
  const CommandLine line{
      "convert",
      "Convert a Hugging Face model directory into a GGUF file, which llama.cpp reads, or a GGUF file into "
      "such a directory; or the directory of a LoRA adapter into a GGUF file that llama.cpp applies to its "
      "model's.",
      "",
      {"convert", "runtime"},
      {"model_name_or_path"},
      {{"output", "The GGUF file, or of a GGUF file the directory, that is written", &output}}};
  if (parse(line, words, config)) return 0;
  const std::string path = get(config, "model_name_or_path");
  if (path.empty()) throw Failure(kUsage, "--model_name_or_path is needed: a model directory or a GGUF file");
  if (!output || output->empty())
    throw Failure(kUsage, "--output is needed: a GGUF file, or a directory where the model is a GGUF file");

  Runtime runtime;
  open_runtime(config, runtime);
  Interrupt interrupt("stopped: nothing was written");
  interrupt.watch_calls(runtime.get());
  const trl_status status =
      trl_model_convert(runtime.get(), path.c_str(), output->c_str(), config.get(), error.out());
  if (status == TRL_E_CANCELLED && Interrupt::signal_number() != 0) {
    spdlog::warn("stopped: {} was not written", *output);
    return 128 + Interrupt::signal_number();
  }
  check(status, error);
  return 0;
}

}  // namespace trl::cli
