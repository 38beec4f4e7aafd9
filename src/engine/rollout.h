// The data that the engine and libtrl.so exchange for methods that learn from completions: prompts,
// completions and rewards.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/generator.h"
#include "engine/host.h"
#include "engine/sampling.h"

namespace trl::engine {

// The prompts of a generation, one for each of its completions.
struct PromptRows {
  std::vector<int64_t> row_ids;  // in the source
  std::vector<std::vector<int32_t>> ids;
  bool for_teacher = false;  // the teacher completes them, if the engine does
  int64_t items = 0;         // tokens that a loss is divided by; 0: those that count in it
};

struct Completion {
  std::vector<int32_t> ids;
  // By token, in the whole distribution at the temperature (Token::whole_log_probability). NaN: not known;
  // empty: none is.
  std::vector<float> log_probabilities = {};
  std::vector<float> entropies = {};  // likewise (Token::entropy)
  // By token: 0 for one that the model did not write, such as a tool's answer. Empty: it wrote all.
  std::vector<uint8_t> written = {};
  bool stopped = false;  // RolloutSource::stops() ended it
  bool counts(size_t token) const { return written.empty() || written[token] != 0; }
};

// Tokens that follow a completion whose turn has ended, and that the model did not write, such as a tool's
// answer. It then writes at most max_new_tokens more; 0: the completion ends with them.
struct Continuation {
  size_t row;
  std::vector<int32_t> ids;
  int64_t max_new_tokens;
};

// Rewards of the completions of a generation, by functions with names.
struct Rewards {
  std::vector<std::string> names;
  std::vector<double> weights;                          // by function
  std::vector<double> values;                           // [completions, functions]; NaN: none
  std::vector<std::pair<std::string, double>> metrics;  // that the functions reported
};

// The completions of a run from a generation that it has yet to make to its end.
struct RolloutNeeds {
  int64_t generations = 0;  // of training
  int64_t evaluations = 0;  // passes over evaluation rows
  int64_t samples = 0;      // first generations of such a pass alone
};

// The rest of a run, implemented by the engine.
class RunAhead {
 public:
  virtual int64_t step() const noexcept = 0;  // updates done
  virtual int64_t max_steps() const noexcept = 0;
  // Returns what the run needs if it ends after so many updates.
  virtual RolloutNeeds needs(int64_t max_steps) const noexcept = 0;

 protected:
  ~RunAhead() = default;
};

// Prompts in TRL's order, and all that a host adds to the completions of them, implemented by libtrl.so. A
// generation goes through next(), sync(), complete(), finished(), reward() and scored(). exclusive.
class RolloutSource {
 public:
  virtual int64_t prompts() noexcept = 0;                // of an epoch
  virtual int64_t generations_per_epoch() noexcept = 0;  // whole ones
  virtual uint64_t fingerprint() noexcept = 0;           // as BatchSource's
  // Makes epoch `epoch` current; the next generation is its `generation`-th, from 0. An evaluation is epoch
  // 0.
  virtual int32_t start_epoch(int64_t epoch, int64_t generation, ErrorSink& error) noexcept = 0;
  // Refuses a run that needs completions which cannot come. Asked once, before the next generation.
  virtual int32_t check_run(const RunAhead& run, ErrorSink& error) noexcept = 0;
  // ok: **prompts is valid until the next call; end: the epoch is over. step: updates done before.
  virtual int32_t next(int64_t step, const PromptRows** prompts, ErrorSink& error) noexcept = 0;
  // Gives the weights of now to a writer elsewhere, such as a server, before complete().
  virtual int32_t sync(ErrorSink& error) noexcept = 0;
  // Gives the completions of these prompts, row i drawn with stream first_stream + i; end: the engine writes
  // them.
  virtual int32_t complete(uint64_t first_stream, std::vector<Completion>* completions,
                           ErrorSink& error) noexcept = 0;
  // Hears of the tokens of a row that the engine writes. true: the completion ends with this one.
  virtual bool stops(size_t row, int32_t id) noexcept = 0;
  // These rows of the generation have their completions, which are not changed before reward(): whoever
  // rewards them may begin. Called for groups of rows while the engine writes others, and for all.
  virtual int32_t finished(std::span<const Completion> completions, std::span<const size_t> rows,
                           ErrorSink& error) noexcept = 0;
  // Takes completions that the engine has written so far, and gives those that go on. It is asked again when
  // their turns have ended, until there are none. Only if RolloutSpec::continues.
  virtual int32_t go_on(std::span<const Completion> completions, std::vector<Continuation>* more,
                        ErrorSink& error) noexcept = 0;
  // Whether rewards are still to come from elsewhere: reward() will wait, and the engine may work meanwhile.
  virtual bool rewards_are_late() noexcept = 0;
  // completions: of all rows of the generation, or of those that redraw() gave other prompts.
  virtual int32_t reward(std::span<const Completion> completions, Rewards* rewards,
                         ErrorSink& error) noexcept = 0;
  // Gives rows, which are whole groups, other prompts; **prompts has all rows of the generation.
  virtual int32_t redraw(std::span<const size_t> rows, const PromptRows** prompts,
                         ErrorSink& error) noexcept = 0;
  // Hears of the advantages of these completions, for records; empty: the method has none.
  virtual int32_t scored(std::span<const Completion> completions, const Rewards& rewards,
                         std::span<const float> advantages, ErrorSink& error) noexcept = 0;
  // As BatchSource's, asked between two generations.
  virtual int32_t state(std::string_view* bytes, ErrorSink& error) noexcept = 0;
  virtual int32_t load_state(std::string_view bytes, ErrorSink& error) noexcept = 0;

 protected:
  ~RolloutSource() = default;
};

// How a run writes completions and learns from them.
struct RolloutSpec {
  RolloutSource* train = nullptr;  // outlives the trainer
  RolloutSource* eval = nullptr;   // or null; outlives the trainer
  GeneratorSpec generator = {};
  Sampling sampling = {}, eval_sampling = {};
  std::vector<int32_t> end_ids = {};  // a completion that ends with none of them was cut
  bool continues = false;             // completions may have several turns (RolloutSource::go_on)
};

}  // namespace trl::engine
