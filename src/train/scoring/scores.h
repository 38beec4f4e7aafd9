// The scores of a reward model.
#pragma once
#include <span>
#include <vector>

#include "model/model.h"

namespace trl::train {

// Returns the token that transformers takes for padding (it scores the last other token); -1: no such token.
int32_t padding_of(const model::Model& model);

// Scores these rows of hidden states with a head [1, width]: float32 [rows], on the host.
at::Tensor scores_at(const at::Tensor& hidden, tensor::Parameter& head, const std::vector<int32_t>& rows,
                     at::ScalarType compute);

// Scores each text at its last token that is not `padding`, with the adapter in use; at most `batch` texts go
// through the model at a time. No graph.
std::vector<float> scores(model::Model& model, std::span<const std::span<const int32_t>> texts,
                          at::ScalarType compute, int64_t batch, int32_t padding);

}  // namespace trl::train
