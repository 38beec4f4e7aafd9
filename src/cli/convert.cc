// trl convert: a model or an adapter into another form or type; an adapter into its model.
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <filesystem>

#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/open_runtime.h"
#include "cli/terminal.h"

namespace trl::cli {

namespace {

// Refuses an output that exists: a file, or a directory that is not empty.
void refuse_to_replace(const std::string& output) {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::file_status there = fs::status(output, error);
  if (fs::is_regular_file(there))
    throw Failure(kUsage, fmt::format("--output: {} exists: give another name, or --overwrite", output));
  if (!fs::is_directory(there)) return;
  const fs::directory_iterator first(output, error);
  if (error || first == fs::end(first)) return;
  throw Failure(
      kUsage,
      fmt::format(
          "--output: {} exists: give another directory, or --overwrite to replace the files of a model there",
          first->path().string()));
}

}  // namespace

int convert(const Words& words) {
  Config config;
  Error error;
  std::optional<std::string> output;
  bool overwrite = false;
  const CommandLine line{
      "convert",
      "Convert a model into another form or type: an output whose name ends in .gguf is a GGUF file, which "
      "llama.cpp reads, any other a Hugging Face directory. An adapter stays one, or with --save.kind merged "
      "becomes its model with the adapter in the weights.",
      "",
      {"convert", "runtime"},
      {"model_name_or_path", "save.kind", "adapter_name_or_path", "dtype", "load_in_4bit", "load_in_8bit",
       "bnb_4bit_quant_type", "use_bnb_nested_quant"},
      {{"output", "What is written: a GGUF file if the name ends in .gguf, else a directory", &output}},
      {{"overwrite", "Replace files that are there already", &overwrite}},
      {},
      true,
      Opens::files};
  if (parse(line, words, config)) return 0;
  const std::string path = get(config, "model_name_or_path");
  if (path.empty())
    throw Failure(kUsage,
                  "--model_name_or_path is required: a directory of a model or an adapter, or a GGUF file");
  if (!output || output->empty())
    throw Failure(kUsage, "--output is required: the name of a GGUF file (.gguf) or of a directory");
  if (!overwrite) refuse_to_replace(*output);
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
  spdlog::info("saved {}", *output);
  return 0;
}

}  // namespace trl::cli
