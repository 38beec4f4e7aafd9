// Rows whose completions are padded to one width, as in PPO: tokens count up to the stop token, and what
// follows is padding, whose distributions belong to some of TRL's means (PPOTrainer.train, utils.forward).
#pragma once
#include <algorithm>
#include <optional>

#include "train/rollout/rollout.h"

namespace trl::train {

// Names of MicroBatch::states. entropy: how many positions of the padded row have the token's distribution.
// value, return: of a state before an action, or after the last one; NaN: the token is none.
inline constexpr const char *kEntropyCount = "entropy", *kValue = "value", *kReturn = "return";
// A column by sequence: the width of the completions.
inline constexpr const char* kWidth = "width";

class PaddedRows {
 public:
  // stop: the token that completions end with. probes: rows have a token for the distributions of padding.
  PaddedRows(int32_t pad, std::optional<int32_t> stop, bool probes)
      : pad_(pad), stop_(stop), probes_(probes) {}

  // Pads completions to the longest one. Throws Error(invalid_argument) if all are empty.
  void pad(Rollout& rollout) const;
  // Says whether rows leave out tokens of this prompt.
  bool shortens(const std::vector<int32_t>& prompt) const {
    return std::ranges::find(prompt, pad_) != prompt.end();
  }
  // Counts the tokens of a padded completion up to its stop token or its padding.
  size_t tokens(const std::vector<int32_t>& ids) const;
  // Whether it has the token up to its stop token, or as the padding after that.
  bool contains(const std::vector<int32_t>& ids, int32_t token) const;
  // Counts its states: one more, unless the completion is as wide as the batch.
  size_t states(const std::vector<int32_t>& ids) const { return std::min(tokens(ids) + 1, ids.size()); }
  // Lays out rows: the tokens that count are targets, with the rollout's token columns. A padding token of
  // prompt or completion is left out, as no token sees it. Its own distribution, which TRL computes from
  // token 0 and the tokens before it, is that of a segment of padding (data::kPadding). The rollout's columns
  // kValue and kReturn, or zeros, become states.
  data::Batch batch_of(const Rollout& rollout, std::span<const int64_t> rows) const;

 private:
  const int32_t pad_;
  const std::optional<int32_t> stop_;
  const bool probes_;
};

}  // namespace trl::train
