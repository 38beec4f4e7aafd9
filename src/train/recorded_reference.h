// precompute_ref_log_probs: the reference's log-probabilities of all rows are computed once, before the first
// step, and kept in ref_logprobs_cache_dir; training needs no reference then.
#pragma once
#include <memory>

#include "train/reference.h"

namespace trl::train {

// Goes through all rows of training and of evaluation, unless a file has the values of this reference for
// these rows. Meanwhile the reference is in memory, and no gradient or optimizer state yet.
std::unique_ptr<Reference> record_reference(const MethodContext& context, const Causal& causal);

}  // namespace trl::train
