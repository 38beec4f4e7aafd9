// A module of a model as an adapter sees it: under transformers' name, and the places where the layers find
// what they compute with.
#pragma once
#include "adapter/target_modules.h"
#include "kernels/kernels.h"

namespace trl::model {

struct Slot {
  adapter::Module module = {};
  int64_t layer = -1;  // -1: before the first one; their number: after the last one
  kernels::Parameter** weight = nullptr;
  kernels::Parameter** bias = nullptr;   // null: this kind of module has none
  kernels::OwnRows* own_rows = nullptr;  // of the input embedding, and of the head
  int64_t stored_rows = -1;              // of a table that was given other rows: how many its files have
  kernels::LowRank* low_rank = nullptr;  // null: this kind of module takes none
};

}  // namespace trl::model
