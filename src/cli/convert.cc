// trl convert: a model directory into a GGUF file, and back; an adapter into a GGUF file, or into its model.
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/open_runtime.h"
#include "cli/output.h"
#include "cli/signals.h"

namespace trl::cli {

namespace {

// How a model is opened, which only merging does.
constexpr const char* kOpening[] = {"adapter_name_or_path", "dtype",
                                    "load_in_4bit",         "load_in_8bit",
                                    "bnb_4bit_quant_type",  "use_bnb_nested_quant"};

// Whether an adapter is to be merged; otherwise no option that is for that may be given.
bool merges(const Config& config) {
  Config usual;
  Error error;
  check(trl_config_create(usual.out(), error.out()), error);
  const std::string kind = get(config, "save.kind");
  if (kind == "merged") return true;
  if (kind != get(usual, "save.kind"))
    throw Failure(kUsage, "--save.kind " + kind + ": merged is the kind that is for this command");
  for (const char* key : kOpening) {
    if (get(config, key) != get(usual, key))
      throw Failure(kUsage,
                    fmt::format("--{}: it is only for --save.kind merged, which opens the model", key));
  }
  return false;
}

// The model, or that of an adapter, is opened with the adapter and saved with it in its weights.
trl_status merge(const Runtime& runtime, const std::string& path, const std::string& output,
                 const Config& config, Error& error) {
  Model model;
  const trl_status status =
      trl_model_open(runtime.get(), path.c_str(), config.get(), model.out(), error.out());
  if (status < 0) return status;
  return trl_model_save(model.get(), output.c_str(), config.get(), error.out());
}

}  // namespace

int convert(const Words& words) {
  Config config;
  Error error;
  check(trl_config_create(config.out(), error.out()), error);
  std::optional<std::string> output;
  const CommandLine line{
      "convert",
      "Convert a Hugging Face model directory into a GGUF file, which llama.cpp reads, or a GGUF file into "
      "such a directory; or the directory of a LoRA adapter into a GGUF file that llama.cpp applies to its "
      "model's, or with --save.kind merged into a directory of its model with the adapter in its weights.",
      "",
      {"convert", "runtime"},
      {"model_name_or_path", "save.kind", "adapter_name_or_path", "dtype", "load_in_4bit", "load_in_8bit",
       "bnb_4bit_quant_type", "use_bnb_nested_quant"},
      {{"output", "The GGUF file, or of a GGUF file the directory, that is written", &output}},
      {},
      {},
      true,
      Opens::files};
  if (parse(line, words, config)) return 0;
  const std::string path = get(config, "model_name_or_path");
  if (path.empty())
    throw Failure(kUsage, "--model_name_or_path is required: a model directory or a GGUF file");
  if (!output || output->empty())
    throw Failure(kUsage, "--output is required: a GGUF file, or a directory where the model is a GGUF file");

  const bool merging = merges(config);
  Runtime runtime;
  open_runtime(config, runtime);
  Interrupt interrupt("stopped: nothing was written");
  interrupt.watch_calls(runtime.get());
  const trl_status status =
      merging ? merge(runtime, path, *output, config, error)
              : trl_model_convert(runtime.get(), path.c_str(), output->c_str(), config.get(), error.out());
  if (status == TRL_E_CANCELLED && Interrupt::signal_number() != 0) {
    spdlog::warn("stopped: {} was not written", *output);
    return 128 + Interrupt::signal_number();
  }
  check(status, error);
  return 0;
}

}  // namespace trl::cli
