// Requests to a generator, and their completions with text.
#pragma once
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/json/json.h"
#include "engine/beside.h"
#include "engine/generator.h"
#include "engine/sampling.h"
#include "run/environment.h"
#include "run/tokenizer.h"
#include "text/tokenizer/completion_text.h"

namespace trl::run {

// refused: on_token ended it. failed: Completion::error says why.
enum class End : uint8_t { none, stop, stop_string, length, refused, cancelled, failed };

// engine::UsedWeights.
struct Weights {
  std::string adapter;
  int64_t version = -1, last_version = -1;
};

struct Completion {
  std::vector<int32_t> ids;
  std::string text;
  End end = End::none;              // none: it goes on
  std::optional<int32_t> stop_id;   // of the request's own, which ended it
  std::optional<std::string> stop;  // text that ended it
  std::string error;
  std::vector<engine::Token> tokens;  // as many as ids, if log-probabilities are asked for
  std::optional<int64_t> cached;      // ids of the prompt whose keys were known; nullopt: not asked for
  // The prompt's ids after the first, if their log-probabilities are asked for and all are computed.
  std::shared_ptr<const std::vector<engine::PromptToken>> prompt;
  std::optional<Weights> weights = {};  // beside training
};

struct RequestOptions {
  engine::Sampling sampling;
  base::Json structured_outputs;   // of a trainer: {regex | choice | json} of sampling.constraint, or null
  bool own_ends = true;            // the ids of the model and of the tokenizer end a text, too
  std::vector<std::string> stops;  // texts at which a completion ends
  int64_t count = 1;               // these and the following: see engine::GenerationRequest
  uint64_t stream = 0;
  bool keeps = false;
  bool tells_usage = false;
  bool takes_new = false;  // take() gives what came since the last time
};

// Receives each token with its text, as far as that is certain, and its log-probability in the whole
// distribution; NaN unless Sampling asks for it. Not 0: the completion ends.
using OnToken =
    std::function<int32_t(size_t number, int32_t id, const std::string& piece, double log_probability)>;

class Requests final : private engine::GenerationSink {
 public:
  // Each argument outlives this; ends: the ids that end a completion.
  Requests(Environment& environment, EngineObject<engine::Generator> generator, const Tokenizer& tokenizer,
           std::vector<int32_t> ends);

  // Returns the number of the first of options.count completions; the others follow.
  int64_t add(std::span<const int32_t> ids, const RequestOptions& options);
  // Computes a step. false: there was nothing to do. An exception of on_token ends the completion, and is
  // thrown after the step.
  bool step(const OnToken& on_token);
  // Goes on with a kept completion after more tokens; its text and ids begin anew.
  void extend(int64_t number, std::span<const int32_t> ids, int64_t max_new_tokens);
  // End these completions; what they have can be taken. Free what was kept of those that are over. Numbers
  // that belong to none are skipped.
  void cancel(int64_t first, int64_t count);
  // Returns the completions as they are, or what is new of them (RequestOptions::takes_new); those that are
  // over are forgotten, unless they are kept. Throws Error(not_found), and nothing is taken.
  std::vector<Completion> take(int64_t first, int64_t count);
  void release_memory();
  engine::GenerationUse use() noexcept { return generator_->use(); }
  // Returns the version of the trained adapter that a completion began with; -1: none, or no such completion.
  int64_t version_of(int64_t number) const noexcept;
  // Has completions say which weights they come from; null: they do not. beside: outlives this.
  void tell_weights_of(engine::Beside* beside) { beside_ = beside; }

 private:
  // Facts of a prompt that all completions of a request share.
  struct Prompt {
    int64_t ids = 0, cached = 0;
    std::shared_ptr<std::vector<engine::PromptToken>> tokens = nullptr;  // null: not asked for
  };
  struct State {
    Completion completion;
    text::CompletionText text;
    RequestOptions options;
    std::shared_ptr<Prompt> prompt;
    bool kept = false, taken = false;
    size_t taken_ids = 0, taken_text = 0;
  };
  bool on_token(int64_t number, const engine::Token& token) noexcept override;
  void on_end(int64_t number, engine::Finish how, std::string_view error) noexcept override;
  void on_begin(int64_t number, int64_t known) noexcept override;
  void on_prompt(int64_t number, const engine::PromptToken& token) noexcept override;
  std::optional<int32_t> stop_id_of(const State& state) const;
  bool add_token(State& state, int64_t number, const engine::Token& token);
  void note_weights(State& state, int64_t number) noexcept;
  static Completion copy(const State& state);
  State& at(int64_t number);

  Environment& environment_;
  EngineObject<engine::Generator> generator_;
  const Tokenizer& tokenizer_;
  const std::vector<int32_t> ends_;
  std::map<int64_t, State> states_;
  engine::Beside* beside_ = nullptr;
  const OnToken* told_ = nullptr;  // during a step
  std::exception_ptr failure_;     // the first of a step
};

}  // namespace trl::run
