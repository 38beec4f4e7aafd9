// Removes unlikely tokens from a distribution, as transformers' logits warpers and vLLM do, without a look at
// more tokens than may stay. Pure functions.
#pragma once
#include <cstdint>
#include <vector>

#include "engine/sampling.h"
#include "kernels/head/logit_row.h"

namespace trl::generate {

// A token that is left. Its probability is weight / the sum of all weights.
struct Candidate {
  int32_t id;
  float logit;   // divided by the temperature
  float weight;  // e^(logit - the largest)
};

// Returns whether the options remove tokens by their probability.
bool truncates(const engine::Sampling& sampling);

// Returns the tokens that top_k, top_p, min_p, typical_p, epsilon_cutoff and eta_cutoff leave, in the order
// of Sampling::order, by ids. Each step sees the distribution over those that are left. The largest always
// stay. whole: of the row, at the temperature, which is above 0.
std::vector<Candidate> truncate(const kernels::LogitRow& row, const kernels::LogitSoftmax& whole,
                                const engine::Sampling& sampling);

}  // namespace trl::generate
