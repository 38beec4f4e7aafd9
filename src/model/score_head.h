// The head of a reward model whose files have none: drawn from torch's generator as transformers 5.23 draws
// it when TRL's RewardTrainer opens the model, right after set_seed.
#pragma once
#include <ATen/ATen.h>

#include <cstdint>

#include "model/model_config.h"

namespace trl::model {

// float32 [1, hidden], on the host: normal, with the standard deviation initializer_range
// (PreTrainedModel._init_weights). In a rehearsal nothing is drawn.
at::Tensor new_score_head(const ModelConfig& config, at::Generator& generator);

// The generator after set_seed(seed) and the opening of the model: what draws next goes on behind a head that
// is new.
at::Generator generator_after_opening(const ModelConfig& config, uint64_t seed);

}  // namespace trl::model
