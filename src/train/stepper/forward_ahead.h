// A forward that is made before it is known which rows come first in an update, while rewards are to come.
#pragma once
#include <optional>

#include "train/batches/micro_batch.h"
#include "train/causal.h"

namespace trl::train {

// One forward with its graph. A later one of the same tokens at the same place would have the same bits.
class ForwardAhead {
 public:
  ForwardAhead(MicroBatch part, const RunPosition& position, model::Output output)
      : part_(std::move(part)), position_(position), output_(std::move(output)) {}
  // Says whether a forward would have this output.
  bool is_of(const MicroBatch& part, const std::optional<RunPosition>& position) const;
  model::Output take() && { return std::move(output_); }

 private:
  const MicroBatch part_;
  const RunPosition position_;
  model::Output output_;
};

}  // namespace trl::train
