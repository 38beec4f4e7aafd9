// Cuts a micro-batch into parts (max_tokens_per_pass) that go through the model one at a time, so that only
// the activations of one part exist at once. The micro-batch remains the unit of loss and metrics.
#pragma once
#include <functional>
#include <optional>
#include <vector>

#include "train/method.h"

namespace trl::train {

// Cuts a batch between documents, or trees of them, into the fewest parts of at most `most_tokens` tokens
// (none: unbounded), and makes the longest part as short as that number of parts allows. A document or tree
// that is longer is one part. The parts are views of the batch's tensors; members about the whole batch stay.
std::vector<MicroBatch> parts_of(const MicroBatch& batch, std::optional<int64_t> most_tokens);

using PartForward = std::function<model::Output(const MicroBatch& part)>;
// Gets a part's share of the loss, runs its backward, and says whether the next part follows.
using PartBackward = std::function<bool(const at::Tensor& share, bool last)>;

// Runs forward, loss and backward of one part after the other. If the loss measures and there are several
// parts, each of them first goes forward without a graph. If no graph is recorded anyway, this is all, and
// one share is the whole value.
void each_part(const std::vector<MicroBatch>& parts, BatchLoss& loss, const PartForward& forward,
               const PartBackward& backward);

}  // namespace trl::train
