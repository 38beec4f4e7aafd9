// The least time that a step of decoding takes on a machine.
#pragma once
#include <cstdint>

#include "generate/session.h"
#include "support/machine.h"

namespace trl::bench {

// Assumes a model without experts and windows.
struct StepCost {
  double weight_bytes = 0, cache_bytes = 0;  // that are read
  double products = 0, attention = 0;        // operations
  bool codes = false;                        // products are in 8-bit integers
  bool wide = false;                         // all in float32
};

// One row of each of `sequences` sequences, which see `context` positions.
StepCost step_cost(model::Model& model, const generate::Cache& cache, int64_t sequences, double context);

// Reading all bytes, or computing all operations, whichever takes longer.
double roof_seconds(const Machine& machine, const StepCost& cost);
// The same of products with the weights and of attention one after the other, since a layer needs both.
double roof_seconds_by_parts(const Machine& machine, const StepCost& cost);
bool is_read(const Machine& machine, const StepCost& cost);  // reading takes longer

}  // namespace trl::bench
