// Finds the slots of the embedding and of a head that shares its weight, and sets values of parameters.
#pragma once
#include <algorithm>
#include <vector>

#include "model/adapter/adapter.h"

namespace trl::model {

inline void write_values(Parameter& parameter, const at::Tensor& values) { parameter.write()->copy_(values); }

// The slot of a tied head; null: the head has a separate weight.
inline const Slot* tied_head(const std::vector<Slot>& slots) {
  const auto found = std::ranges::find_if(slots, [](const Slot& slot) { return slot.module.tied; });
  return found == slots.end() ? nullptr : &*found;
}

inline const Slot& embedding_of(const std::vector<Slot>& slots) {
  return *std::ranges::find_if(
      slots, [](const Slot& slot) { return slot.module.kind == adapter::ModuleKind::embedding; });
}

}  // namespace trl::model
