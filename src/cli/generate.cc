// trl generate: completes prompts. The completion of one goes to stdout as it comes.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/open_runtime.h"
#include "cli/output.h"
#include "cli/progress_line.h"
#include "cli/prompts.h"

namespace trl::cli {

namespace {

struct Stream {
  bool prints;
  std::string text;
};

int32_t on_token(void* any, size_t, int32_t, const char* text, size_t size) {
  auto& stream = *static_cast<Stream*>(any);
  stream.text.append(text, size);
  return !stream.prints || print({text, size}) ? 0 : 1;
}

// False: stdout cannot be written any more.
bool complete(const Generator& generator, const Config& config, const std::string& prompt, bool json) {
  Error error;
  const char* const text = prompt.c_str();
  const size_t size = prompt.size();
  Stream stream{!json, ""};
  const trl_status status = trl_generator_generate(generator.get(), &text, &size, 1, config.get(), on_token,
                                                   &stream, nullptr, error.out());
  if (json && status == TRL_OK) {
    const nlohmann::ordered_json line = {{"prompt", prompt}, {"completion", stream.text}};
    return print(line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
  }
  if ((!stream.text.empty() || status == TRL_OK) && !json && !print("\n")) return false;
  check(status, error);
  return true;
}

}  // namespace

int generate(const Words& words) {
  Config config;
  Error error;
  check(trl_config_create(config.out(), error.out()), error);
  std::vector<std::string> given;
  std::optional<std::string> file;
  bool json = false;
  const CommandLine line{
      "generate",
      "Complete prompts. Greedy unless --temperature is above 0. The completion alone is printed; of several "
      "prompts, each under its number, or with --json as a line of its own.",
      "",
      {"generate", "runtime"},
      {"model_name_or_path", "adapter_name_or_path", "dtype", "eos_token", "pad_token", "chat_template",
       "chat_template_path"},
      {{"prompts",
        "A file of prompts: a text a line, or rows to train on (JSON Lines or a JSON list) with prompt, "
        "messages, "
        "conversations or instruction; -: stdin",
        &file}},
      {{"json", "Print a line of JSON for each prompt: prompt and completion", &json}},
      {{"prompt", "The texts to complete, as they stand (see --chat); -: stdin, as without it", &given}}};
  if (parse(line, words, config)) return 0;
  const std::string path = get(config, "model_name_or_path");
  if (path.empty()) throw Failure(kUsage, "--model_name_or_path is needed: a model directory or a GGUF file");
  bool chat = get(config, "generate.chat") == "true";
  const std::vector<std::string> prompts = read_prompts(given, file, chat);
  if (chat) check(trl_config_set(config.get(), "generate.chat", "true", error.out()), error);

  Runtime runtime;
  open_runtime(config, runtime);
  Model model;
  check(trl_model_open(runtime.get(), path.c_str(), config.get(), model.out(), error.out()), error);
  Generator generator;
  check(trl_generator_create(model.get(), nullptr, generator.out(), error.out()), error);
  clear_line();
  for (size_t i = 0; i < prompts.size(); ++i) {
    if (prompts.size() > 1 && !json &&
        !print(fmt::format("{}--- {} of {}\n", i > 0 ? "\n" : "", i + 1, prompts.size())))
      return 0;
    if (!complete(generator, config, prompts[i], json)) return 0;
  }
  return 0;
}

}  // namespace trl::cli
