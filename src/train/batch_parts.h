// A micro-batch that goes through the model in parts (max_tokens_per_pass), so that the activations of one
// part exist at a time. It stays the unit of loss and metrics.
#pragma once
#include <functional>
#include <optional>
#include <vector>

#include "train/method.h"

namespace trl::train {

// Cut between documents, or trees of them, in the fewest parts of at most that many tokens (none: no bound),
// the longest of which is as short as that number of parts allows. One that is longer is a part by itself.
// The parts are views of the batch's tensors; members about the whole batch stay.
std::vector<MicroBatch> parts_of(const MicroBatch& batch, std::optional<int64_t> most_tokens);

using PartForward = std::function<model::Output(const MicroBatch& part)>;
// Gets a part's share of the loss, runs its backward, and answers whether the next one follows.
using PartBackward = std::function<bool(const at::Tensor& share, bool last)>;

// Forward, loss and backward of one part after the other. Before, a loss that measures all parts sees each of
// several go forward without a graph; where there is none anyway, that is all, and one share is the whole.
void each_part(const std::vector<MicroBatch>& parts, BatchLoss& loss, const PartForward& forward,
               const PartBackward& backward);

}  // namespace trl::train
