// The completions of one generation, and all that training needs of them.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "data/batch/batch.h"
#include "engine/rollout.h"

namespace trl::train {

// Values by row of a generation, and by token of its completion.
using TokenRows = std::vector<std::vector<float>>;

// By row, unless said otherwise.
struct Rollout {
  bool training = true;  // false: of an evaluation
  // All completions have log-probabilities in the distribution of the loss, which metrics compare with them.
  bool stated = false;
  // They are drawn at the temperature of the loss. It matters before rewards, and no checkpoint has it.
  bool tempered = true;
  bool exact = false;  // stated, and these are those of a forward, bit for bit (generation_exact)
  int64_t epoch = 0;
  engine::PromptRows prompts;
  std::vector<engine::Completion> completions;
  std::vector<uint8_t> ended;    // with an end id; 0: it was cut
  std::vector<uint8_t> learned;  // 0: its tokens count in no loss
  engine::Rewards rewards;
  std::vector<float> advantages;
  data::Columns columns;  // by name, for the loss
  // By name; with values of the padding.
  std::map<std::string, TokenRows, std::less<>> token_columns;
  // The token that follows completions up to the longest one, as padding (data::kPadding); none: nothing
  // does.
  std::optional<int32_t> pad;
  std::vector<std::pair<std::string, double>> metrics;  // of the whole generation

  int64_t rows() const { return std::ssize(completions); }
  int64_t width() const;  // tokens of the longest completion
  size_t padding(size_t row) const;
  size_t padded(size_t row) const { return completions[row].ids.size() + padding(row); }
  // Says whether a token of a completion or of its padding has a log-probability.
  bool counts(size_t row, size_t token) const {
    return token >= completions[row].ids.size() || completions[row].counts(token);
  }
  // Tokens of a completion that the model wrote.
  int64_t written(size_t row) const;
  int64_t tokens() const;  // of prompts, and those written
  int64_t items() const;   // that a loss is divided by: those that count in it, unless the prompts say
};

// Names of token columns: the log-probability and the entropy that generation recorded, as long as the
// weights are those of generation.
inline constexpr const char *kGenerated = "generated", *kGeneratedEntropy = "generated_entropy";

// Likewise: the log-probability that generation stated, which only metrics compare with that of the loss.
inline constexpr const char* kStated = "stated";

// The name of a column by sequence: the number of the row in the rollout.
inline constexpr const char* kRow = "row";

// Lays out rows of a rollout as a micro-batch: its targets are the tokens that count. Column `advantages` by
// sequence, if there are advantages; token columns as in the rollout.
data::Batch batch_of(const Rollout& rollout, std::span<const int64_t> rows);

// Appends TRL's metrics of lengths: completions/mean_length and so on.
void add_length_metrics(Rollout& rollout);

// A rollout as bytes, bit by bit, for checkpoints.
std::string bytes_of(const Rollout& rollout);
Rollout rollout_of(std::string_view bytes);  // throws Error(format)

}  // namespace trl::train
