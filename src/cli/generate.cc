// trl generate: completes prompts, all together.
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <nlohmann/json.hpp>
#include <set>

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
// one that is not over as it is generated: text, under numbers if there are several, or JSON. One that fails
// is a line of JSON with its error, or a message on stderr; the others go on. If a step fails, so do those
// that are not over.
class Batch {
 public:
  Batch(const Config& config, const Generator& generator, std::vector<Prompt> prompts, Output output)
      : config_(config),
        generator_(generator),
        prompts_(std::move(prompts)),
        times_(completions_of_each(config)),
        output_(output),
        requests_(prompts_.size()),
        pieces_(prompts_.size() * times_) {}

  // Returns the exit code.
  int run() {
    add();
    Error error;
    for (trl_status status = TRL_OK; status == TRL_OK && writes_;) {
      grew_ = false;
      status = trl_generator_step(generator_.get(), on_token, this, error.out());
      const std::string failure = status < 0 ? trl_error_message(error.get()) : "";
      while ((status != TRL_OK || !grew_) && writes_ && done_ < pieces_.size() && finish(failure)) {
      }
      check(status, error);
    }
    if (failed_.empty()) return 0;
    if (output_.json)
      spdlog::error("{} of {} prompts failed: see \"error\" in their lines", failed_.size(), prompts_.size());
    return kFailed;
  }

 private:
  struct Request {
    size_t first = 0;     // the generator's number of its first completion
    std::string refused;  // why there is none; empty: there is one
  };

  static bool is_about_prompt(trl_status status) {
    return status == TRL_E_INVALID_ARGUMENT || status == TRL_E_FORMAT || status == TRL_E_OUT_OF_MEMORY;
  }

  void add() {
    const size_t stream = std::stoul(get(config_, "generate.stream"));
    for (size_t i = 0; i < prompts_.size(); ++i) {
      Request& request = requests_[i];
      set(config_, "generate.stream", std::to_string(stream + i * times_));
      const std::string& text = prompts_[i].text;
      Error error;
      const trl_status status = trl_generator_add(generator_.get(), text.data(), text.size(), nullptr, 0,
                                                  config_.get(), &request.first, error.out());
      if (is_about_prompt(status)) {
        request.refused = trl_error_message(error.get());
        continue;
      }
      check(status, error);
      places_.resize(request.first + times_);
      for (size_t j = 0; j < times_; ++j) places_[request.first + j] = i * times_ + j;
    }
  }

  static int32_t on_token(void* any, size_t number, int32_t, const char* text, size_t size, double) {
    auto& batch = *static_cast<Batch*>(any);
    const size_t place = batch.places_[number];
    if (place == batch.done_) batch.grew_ = true;
    if (batch.output_.json) return 0;
    batch.pieces_[place].append(text, size);
    if (place == batch.done_) batch.write();
    return batch.writes_ ? 0 : 1;
  }

  // Writes the text that there is of the first completion that is not written.
  void write() {
    if (begun_ <= done_) {
      const char* const space = begun_ > 0 ? "\n" : "";
      begun_ = done_ + 1;
      if (pieces_.size() > 1) writes_ = print(fmt::format("{}--- {} of {}\n", space, begun_, pieces_.size()));
    }
    std::string text = std::move(pieces_[done_]);
    pieces_[done_].clear();
    if (writes_) writes_ = print(text);
  }

  // Writes the first completion that is not written, if it is over or there is a failure. Copies all of it:
  // while it grows, run() does not ask.
  bool finish(const std::string& failure) {
    const Request& request = requests_[done_ / times_];
    if (!request.refused.empty()) {
      put({{"text", ""},
           {"token_ids", nlohmann::ordered_json::array()},
           {"finish_reason", "abort"},
           {"error", request.refused}});
      done_ += times_;
      return true;
    }
    Error error;
    Completions completions;
    check(trl_generator_take(generator_.get(), request.first + done_ % times_, 1, completions.out(),
                             error.out()),
          error);
    const bool over = trl_completions_finish_reason(completions.get(), 0) != nullptr;
    if (!over && failure.empty()) return false;
    auto completion = nlohmann::ordered_json::parse(trl_completions_json(completions.get(), 0, nullptr));
    if (!over) {
      completion["finish_reason"] = "abort";
      completion["error"] = failure;
    }
    put(std::move(completion));
    ++done_;
    return true;
  }

  void put(nlohmann::ordered_json completion) {
    const bool failed = completion.contains("error");
    if (failed) {
      failed_.insert(done_ / times_);
      completion["error"] = prompts_[done_ / times_].where + ": " + completion["error"].get<std::string>();
    }
    if (output_.json) {
      writes_ = print(line(completion));
      return;
    }
    const bool begun = begun_ > done_ || !pieces_[done_].empty();
    if (!failed || begun) write();
    if (!failed || begun) writes_ = writes_ && print("\n");
    if (failed) spdlog::error("{}", completion["error"].get<std::string>());
  }

  std::string line(const nlohmann::ordered_json& completion) const {
    nlohmann::ordered_json line = {{"prompt", prompts_[done_ / times_].text},
                                   {"completion", completion["text"]}};
    for (const auto& [key, value] : completion.items()) {
      const bool of_ids = key == "token_ids" || key == "finish_reason" || key == "stop_reason";
      const bool wanted = of_ids ? output_.ids : key != "text";
      if (wanted) line[key] = value;
    }
    return line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  }

  const Config& config_;
  const Generator& generator_;
  const std::vector<Prompt> prompts_;
  const size_t times_;
  const Output output_;
  std::vector<Request> requests_;    // of each prompt
  std::vector<size_t> places_;       // of completions in the output, by the generator's numbers
  std::vector<std::string> pieces_;  // text of each completion that is not written yet
  std::set<size_t> failed_;          // prompts
  size_t done_ = 0, begun_ = 0;      // completions that are written, and that are begun
  bool grew_ = false;                // the first one that is not written has got a token in this step
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
      "several, each under its number, or with --json as a line of its own. --system stands for --chat, too. "
      "If some prompts fail, the others are completed, and the exit status is 1.",
      "",
      {"generate", "runtime"},
      model_keys(),
      {{"prompts",
        "A file of prompts: a text a line, a JSON list of texts, or rows to train on (JSON Lines or a JSON "
        "list) with prompt, messages, conversations or instruction; -: stdin",
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
  if (get(config, "generate.take") == "new")
    throw Failure(kUsage,
                  "--take: the command takes completions that are over; the key is for trl_generator_take");
  const bool details = output.ids || !generation_value(config, "logprobs").empty() ||
                       !get(config, "generate.prompt_logprobs").empty() ||
                       get(config, "generate.usage") == "true";
  if (!output.json && details)
    throw Failure(
        kUsage,
        "--logprobs, --prompt_logprobs, --usage and --token_ids are for lines of JSON: give --json, too");
  bool chat = takes_chat(config);
  const std::vector<Prompt> prompts = read_prompts(given, file, chat);
  if (chat) set(config, "generate.chat", "true");

  Runtime runtime;
  open_runtime(config, runtime);
  Model model;
  check(trl_model_open(runtime.get(), path.c_str(), config.get(), model.out(), error.out()), error);
  Generator generator;
  check(trl_generator_create(model.get(), nullptr, generator.out(), error.out()), error);
  clear_line();
  return Batch(config, generator, prompts, output).run();
}

}  // namespace trl::cli
