// A module of a model as an adapter sees it: its name in transformers, and its parameters.
#pragma once
#include "adapter/target_modules.h"
#include "kernels/kernels.h"

namespace trl::model {

struct Slot {
  adapter::Module module = {};
  int64_t layer = -1;  // -1: before the first one; their number: after the last one
  kernels::Parameter* weight = nullptr;
  kernels::Parameter* bias = nullptr;  // null: none
  bool takes_rows = false;             // the input embedding, and the head of a language model
  bool takes_terms = false;            // can have low-rank terms
  int64_t stored_rows = -1;            // rows of a resized table in its files; -1: not resized
};

}  // namespace trl::model
