// trl generate: completes prompts. A single completion is written to stdout as it is generated.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/input.h"
#include "cli/open_runtime.h"
#include "cli/progress.h"
#include "cli/terminal.h"

namespace trl::cli {

namespace {

// Writes the completions of all prompts on stdout: text as it is generated, under numbers if there are
// several, or JSON.
class Completed {
 public:
  Completed(const Config& config, size_t prompts, bool json)
      : config_(config),
        times_(std::stoul(get(config, "generate.num_return_sequences"))),
        of_(prompts * times_),
        json_(json) {}

  // Returns false if stdout cannot be written any more.
  bool complete(const Generator& generator, const std::string& prompt) {
    Error error;
    const char* const text = prompt.c_str();
    const size_t size = prompt.size();
    texts_.assign(times_, "");
    const trl_status status = trl_generator_generate(generator.get(), &text, &size, 1, config_.get(),
                                                     on_token, this, nullptr, error.out());
    done_ += times_;
    bool written = json_ || ((status != TRL_OK || begin(done_)) && end());
    check(status, error);
    for (size_t i = 0; json_ && written && i < times_; ++i) written = print_json(prompt, texts_[i]);
    return written;
  }

 private:
  static int32_t on_token(void* any, size_t index, int32_t, const char* text, size_t size) {
    auto& out = *static_cast<Completed*>(any);
    out.texts_[index].append(text, size);
    return out.json_ || (out.begin(out.done_ + index + 1) && print({text, size})) ? 0 : 1;
  }

  // Advances the output to the completion with this number, counted from 1.
  bool begin(size_t number) {
    while (begun_ < number) {
      if (!end()) return false;
      const char* const space = begun_ > 0 ? "\n" : "";
      is_open_ = true;
      ++begun_;
      if (of_ > 1 && !print(fmt::format("{}--- {} of {}\n", space, begun_, of_))) return false;
    }
    return true;
  }

  bool end() {
    const bool written = !is_open_ || print("\n");
    is_open_ = false;
    return written;
  }

  static bool print_json(const std::string& prompt, const std::string& completion) {
    const nlohmann::ordered_json line = {{"prompt", prompt}, {"completion", completion}};
    return print(line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
  }

  const Config& config_;
  const size_t times_, of_;
  const bool json_;
  std::vector<std::string> texts_;  // for the current prompt
  size_t done_ = 0, begun_ = 0;     // completions
  bool is_open_ = false;            // a completion's line is not ended yet
};

// Returns whether --chat is given, or --system without --chat false.
bool takes_chat(const Config& config) {
  return get(config, "generate.chat") == "true" ||
         (!get(config, "generate.system").empty() && origin_of(config, "generate.chat") == "default");
}

}  // namespace

int generate(const Words& words) {
  Config config;
  Error error;
  std::vector<std::string> given;
  std::optional<std::string> file;
  bool json = false;
  const CommandLine line{
      "generate",
      "Complete prompts. Greedy unless --temperature is above 0. The completion alone is printed; of "
      "several, each under its number, or with --json as a line of its own. --system stands for --chat, too.",
      "",
      {"generate", "runtime"},
      model_keys(),
      {{"prompts",
        "A file of prompts: a text a line, or rows to train on (JSON Lines or a JSON list) with prompt, "
        "messages, conversations or instruction; -: stdin",
        &file}},
      {{"json", "Print a line of JSON for each prompt: prompt and completion", &json}},
      {{"prompt", "The texts to complete, as they stand (see --chat); -: stdin, as without it", &given}}};
  if (parse(line, words, config)) return 0;
  const std::string path = get(config, "model_name_or_path");
  if (path.empty()) throw Failure(kUsage, "--model_name_or_path is needed: a model directory or a GGUF file");
  bool chat = takes_chat(config);
  const std::vector<std::string> prompts = read_prompts(given, file, chat);
  if (chat) set(config, "generate.chat", "true");

  Runtime runtime;
  open_runtime(config, runtime);
  Model model;
  check(trl_model_open(runtime.get(), path.c_str(), config.get(), model.out(), error.out()), error);
  Generator generator;
  check(trl_generator_create(model.get(), nullptr, generator.out(), error.out()), error);
  clear_line();
  Completed output(config, prompts.size(), json);
  for (const std::string& prompt : prompts)
    if (!output.complete(generator, prompt)) return 0;
  return 0;
}

}  // namespace trl::cli
