// The losses of GRPO (Shao et al. 2024) and its relatives over the completions of one micro-batch:
// log-probabilities and entropies of tokens -> a scalar and its derivatives. Pure; as in TRL's
// GRPOTrainer._compute_loss.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "loss/dual.h"
#include "loss/metrics.h"
#include "loss/policy/policy_options.h"

namespace trl::loss {

// Targets are the tokens that count (both masks 1), in order of rows, then of tokens. A row may have none.
// The spans must outlive the Policy. Each of the last four is empty or has a number for each target.
struct PolicyBatch {
  std::span<const float> advantages;  // by row
  std::span<const int32_t> rows;      // the row of each target
  std::span<const float> old = {};    // log-probabilities of the policy that wrote; empty: the current ones
  std::span<const float> reference = {};   // the reference model's, needed if beta is not 0
  std::span<const float> sampling = {};    // the sampler's, NaN: unknown; empty: as `old`
  std::span<const float> importance = {};  // weight of each target against the sampler's error; empty: 1
};

// Divisors beyond the micro-batch; in evaluation only `items` is set.
struct PolicyScale {
  double items = 0;                 // targets of the whole generation batch
  double accumulated = 1;           // micro-batches of this optimizer step
  double steps_per_generation = 1;  // micro-batches of a generation batch
};

class Policy {
 public:
  // Throws Error(internal) if the batch does not fit together.
  Policy(const PolicyOptions& options, const PolicyBatch& batch, const PolicyScale& scale);

  // Says whether a target's term follows from its own numbers, without measure().
  bool by_token() const;
  // Takes in the log-probability and entropy of every target; must precede term() unless by_token().
  void measure(std::span<const double> log_probs, std::span<const double> entropies);

  struct Term {
    double loss = 0;
    double by_log_prob = 0, by_entropy = 0;  // derivatives of the micro-batch's loss
  };
  // A target's part of the loss; all of them add up to the loss of the micro-batch. Any number of threads.
  Term term(size_t target, double log_prob, double entropy) const;

  // Returns the entropies that the bonus counts: of all targets, or those that top_entropy_quantile keeps.
  std::vector<double> counted(std::span<const double> log_probs, std::span<const double> entropies) const;

  // policy_loss (with an entropy bonus), kl (with a reference), entropy, and what the loss clipped. Each mean
  // is over targets, or over rows for ratios of sequences.
  Metrics metrics(std::span<const double> log_probs, std::span<const double> entropies) const;

 private:
  struct Row {
    size_t first = 0, end = 0;  // targets
    double share = 0;           // factor of each target's loss
    double weight = 1;          // 0: masked as off-policy
    double phi = 1;             // vespo's
    double log_ratio = 0;       // by_sequence: the mean over targets
    double by_log_prob = 0;     // derivative by each log-probability, through the ratio of the sequence
    double targets() const { return static_cast<double>(end - first); }
  };
  // How targets count, given all of them.
  struct State {
    std::vector<Row> rows;
    std::vector<bool> kept;  // by target: among those of the highest entropy; empty: all are
    double bonus = 0;        // the loss by each kept target's entropy
  };

  bool divided_by_items() const;
  double share(const Row& row) const;
  double advantage(size_t target) const { return static_cast<double>(batch_.advantages[row_of(target)]); }
  size_t row_of(size_t target) const { return static_cast<size_t>(batch_.rows[target]); }
  double old(size_t target, double log_prob) const {
    return batch_.old.empty() ? log_prob : static_cast<double>(batch_.old[target]);
  }
  State state_of(std::span<const double> log_probs, std::span<const double> entropies) const;
  void keep_highest(std::span<const double> entropies, State& state) const;
  void measure_row(std::span<const double> log_probs, double advantage, Row& row) const;
  // Values of a target by its log-probability (variable 0) and by the mean log ratio of its row (variable 1).
  Dual ratio(const State& state, size_t target, double log_prob) const;
  Dual divergence(const Dual& ratio, size_t target, double log_prob) const;
  Dual objective(const Dual& ratio, const Row& row, size_t target, double log_prob) const;
  Dual policy_term(const State& state, size_t target, double log_prob) const;

  const PolicyOptions options_;
  const PolicyBatch batch_;
  const PolicyScale scale_;
  State state_;
};

}  // namespace trl::loss
