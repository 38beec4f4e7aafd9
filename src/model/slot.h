// A module of a model as an adapter sees it: its name in transformers, and the pointers through which the
// layers find their parameters.
#pragma once
#include "adapter/target_modules.h"
#include "kernels/kernels.h"

namespace trl::model {

struct Slot {
  adapter::Module module = {};
  int64_t layer = -1;  // -1: before the first one; their number: after the last one
  kernels::Parameter** weight = nullptr;
  kernels::Parameter** bias = nullptr;   // null: this kind of module has none
  kernels::OwnRows* own_rows = nullptr;  // for the input embedding, and for the head
  int64_t stored_rows = -1;              // rows of a resized table in its files; -1: not resized
  kernels::LowRank* low_rank = nullptr;  // null: this kind of module takes none
};

}  // namespace trl::model
