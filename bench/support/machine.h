// The speeds of this machine that bound decoding, reached by the engine's own kernels.
#pragma once
#include <algorithm>

#include "support/runs.h"

namespace trl::bench {

struct Machine {
  double bandwidth = 0;      // bytes a second that all threads read together
  double f32 = 0, bf16 = 0;  // operations a second of a large product
  double int8 = 0;           // 0: no instructions for it

  double peak() const { return std::max(f32, bf16); }
  double codes_peak() const { return int8 > 0 ? int8 : peak(); }
};

double read_bandwidth(double seconds);  // that it may take
// seconds: for each speed.
Machine measure_machine(double seconds);
Json line_of(const Machine& machine);

}  // namespace trl::bench
