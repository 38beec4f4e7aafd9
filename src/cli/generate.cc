// trl generate: completes one prompt; the completion alone goes to stdout, as it comes.
#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/log.h"
#include "cli/output.h"

namespace trl::cli {

namespace {

int32_t on_token(void* any, size_t, int32_t, const char* text, size_t size) {
  *static_cast<bool*>(any) = true;
  return print({text, size}) ? 0 : 1;
}

}  // namespace

int generate(const Words& words) {
  Config config;
  Error error;
  check(trl_config_create(config.out(), error.out()), error);
  std::optional<std::string> prompt;
  const CommandLine line{
      "generate",
      "Complete a prompt. Greedy unless --temperature is above 0.",
      "",
      {"generate", "runtime"},
      {"model_name_or_path", "dtype", "eos_token", "pad_token", "chat_template", "chat_template_path"},
      {{"prompt", "The text to complete, as it stands (see --chat)", &prompt}}};
  if (parse(line, words, config)) return 0;
  const std::string path = get(config, "model_name_or_path");
  if (path.empty()) throw Failure(kUsage, "--model_name_or_path is needed: a model directory or a GGUF file");
  if (!prompt) throw Failure(kUsage, "--prompt is needed: the text to complete");

  Runtime runtime;
  open_runtime(config, runtime);
  Model model;
  check(trl_model_open(runtime.get(), path.c_str(), config.get(), model.out(), error.out()), error);
  Generator generator;
  check(trl_generator_create(model.get(), nullptr, generator.out(), error.out()), error);
  const char* text = prompt->c_str();
  const size_t size = prompt->size();
  bool began = false;
  const trl_status status = trl_generator_generate(generator.get(), &text, &size, 1, config.get(), on_token,
                                                   &began, nullptr, error.out());
  if (began || status == TRL_OK) {
    if (!print("\n")) return 0;
  }
  check(status, error);
  return 0;
}

}  // namespace trl::cli
