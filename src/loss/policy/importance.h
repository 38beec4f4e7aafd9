// Weights of tokens that another program sampled: importance sampling against the difference between its
// log-probabilities and the policy's. Pure; as in TRL's GRPOTrainer._generate_and_score_completions.
#pragma once
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "loss/metrics.h"

namespace trl::loss {

// How far log-probabilities of training are from those of the sampler for the same tokens.
class SamplingGap {
 public:
  void add(double of_training, double of_sampler);  // NaN of the sampler: not known, counts nothing
  bool empty() const { return count_ == 0; }
  Metrics metrics() const;  // sampling/sampling_logp_difference; 0 if it is empty, as in TRL

 private:
  double sum_ = 0, most_ = std::numeric_limits<double>::quiet_NaN(), count_ = 0;
};

enum class ImportanceMode : uint8_t { token_truncate, token_mask, sequence_truncate, sequence_mask };

struct ImportanceOptions {
  ImportanceMode mode = ImportanceMode::sequence_mask;
  // A ratio outside becomes the nearer bound (truncate) or 0 (mask).
  double least = -std::numeric_limits<double>::infinity(), most = 3;
};

// Targets as in PolicyBatch (loss/policy/policy.h), but of a whole generation batch.
struct ImportanceBatch {
  size_t row_count = 0;
  std::span<const int32_t> rows;    // the row of each target
  std::span<const float> old;       // the policy's log-probabilities
  std::span<const float> sampling;  // the sampler's; NaN: unknown, counts as the policy's
};

struct Importance {
  std::vector<float> ratios;  // by target; for modes of sequences, that of its row
  Metrics metrics;            // sampling/*; the differences are of known log-probabilities only
};
// exp(old - sampling), or of its sum over a row.
Importance importance_ratios(const ImportanceBatch& batch, const ImportanceOptions& options);

}  // namespace trl::loss
