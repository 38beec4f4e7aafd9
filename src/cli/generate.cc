// trl generate: completes prompts, all together.
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

struct Output {
  bool json = false, ids = false;
};

// Completes all prompts together, and writes the completions on stdout in the order of the prompts, the first
// one that is not over as it is generated: text, under numbers if there are several, or JSON.
class Batch {
 public:
  Batch(const Config& config, const Generator& generator, std::vector<std::string> prompts, Output output)
      : config_(config),
        generator_(generator),
        prompts_(std::move(prompts)),
        times_(std::stoul(get(config, "generate.num_return_sequences"))),
        output_(output),
        pieces_(prompts_.size() * times_) {}

  void run() {
    add();
    Error error;
    for (trl_status status = TRL_OK; status == TRL_OK && writes_;) {
      status = trl_generator_step(generator_.get(), on_token, this, error.out());
      check(status, error);
      while (writes_ && done_ < pieces_.size() && finish()) {
      }
    }
  }

 private:
  void add() const {
    Error error;
    const size_t stream = std::stoul(get(config_, "generate.stream"));
    for (size_t i = 0; i < prompts_.size(); ++i) {
      size_t first = 0;
      set(config_, "generate.stream", std::to_string(stream + i * times_));
      check(trl_generator_add(generator_.get(), prompts_[i].data(), prompts_[i].size(), nullptr, 0,
                              config_.get(), &first, error.out()),
            error);
    }
  }

  static int32_t on_token(void* any, size_t number, int32_t, const char* text, size_t size) {
    auto& batch = *static_cast<Batch*>(any);
    if (batch.output_.json) return 0;
    batch.pieces_[number].append(text, size);
    if (number == batch.done_) batch.write(number);
    return batch.writes_ ? 0 : 1;
  }

  // Writes what there is of a completion's text.
  void write(size_t number) {
    if (begun_ == number) {
      ++begun_;
      const char* const space = number > 0 ? "\n" : "";
      if (pieces_.size() > 1)
        writes_ = print(fmt::format("{}--- {} of {}\n", space, number + 1, pieces_.size()));
    }
    std::string text = std::move(pieces_[number]);
    pieces_[number].clear();
    if (writes_) writes_ = print(text);
  }

  // Takes the first completion that is not written. false: it goes on.
  bool finish() {
    Error error;
    Completions completions;
    check(trl_generator_take(generator_.get(), done_, 1, completions.out(), error.out()), error);
    const char* const reason = trl_completions_finish_reason(completions.get(), 0);
    if (reason == nullptr) return false;
    const std::string text = trl_completions_json(completions.get(), 0, nullptr);
    const auto json = nlohmann::ordered_json::parse(text);
    if (!output_.json) write(done_);
    if (!output_.json) writes_ = writes_ && print("\n");
    if (json.contains("error"))
      throw Failure(kFailed, fmt::format("prompt {}: {}", done_ / times_ + 1, std::string(json["error"])));
    if (output_.json) writes_ = print(line(json));
    ++done_;
    return true;
  }

  std::string line(const nlohmann::ordered_json& completion) const {
    nlohmann::ordered_json line = {{"prompt", prompts_[done_ / times_]}, {"completion", completion["text"]}};
    for (const auto& [key, value] : completion.items()) {
      const bool wanted = key == "token_ids" || key == "finish_reason" ? output_.ids : key != "text";
      if (wanted) line[key] = value;
    }
    return line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  }

  const Config& config_;
  const Generator& generator_;
  const std::vector<std::string> prompts_;
  const size_t times_;
  const Output output_;
  std::vector<std::string> pieces_;  // text of each completion that is not written yet
  size_t done_ = 0, begun_ = 0;      // completions that are written, and that are begun
  bool writes_ = true;               // false: stdout cannot be written any more
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
  Output output;
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
      {{"json",
        "Print a line of JSON for each completion: prompt and completion, and with --logprobs their "
        "log-probabilities",
        &output.json},
       {"token_ids", "With --json: token_ids and finish_reason, too", &output.ids}},
      {{"prompt", "The texts to complete, as they stand (see --chat); -: stdin, as without it", &given}}};
  if (parse(line, words, config)) return 0;
  const std::string path = get(config, "model_name_or_path");
  if (path.empty()) throw Failure(kUsage, "--model_name_or_path is needed: a model directory or a GGUF file");
  if (get(config, "generate.keep") == "true")
    throw Failure(kUsage, "--keep: the command continues no completion; the key is for trl_generator_extend");
  if (!output.json && (output.ids || !get(config, "generate.logprobs").empty()))
    throw Failure(kUsage, "--logprobs and --token_ids are for lines of JSON: give --json, too");
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
  Batch(config, generator, prompts, output).run();
  return 0;
}

}  // namespace trl::cli
