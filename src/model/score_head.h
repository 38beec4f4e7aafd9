// The head of a reward model whose files have none: drawn from torch's generator as transformers 5.23 draws
// it when TRL's RewardTrainer opens the model, right after set_seed.
#pragma once
#include <ATen/ATen.h>

#include "model/model_config.h"

namespace trl::model {

// Draws float32 [labels, hidden], on the host: normal, with the standard deviation initializer_range
// (PreTrainedModel._init_weights). type: the head's later type. In a rehearsal nothing is drawn.
at::Tensor new_score_head(const ModelConfig& config, at::ScalarType type, at::Generator& generator);

}  // namespace trl::model
