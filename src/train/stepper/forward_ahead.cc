#include "train/stepper/forward_ahead.h"

#include <ATen/core/grad_mode.h>

namespace trl::train {

bool ForwardAhead::is_of(const MicroBatch& part, const std::optional<RunPosition>& position) const {
  return at::GradMode::is_enabled() && position && position->step == position_.step &&
         position->micro_batch == position_.micro_batch && part.width == part_.width &&
         part.segments->cu_seqlens == part_.segments->cu_seqlens &&
         part.segments->prefix == part_.segments->prefix && at::equal(part.input_ids, part_.input_ids) &&
         at::equal(part.position_ids, part_.position_ids);
}

}  // namespace trl::train
