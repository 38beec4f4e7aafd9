// Estimates how long the arithmetic of a rehearsal takes on this machine: times its larger products, for
// a quarter of a second at most.
#pragma once
#include <map>

#include "tensor/memory/rehearsal.h"

namespace trl::kernels {

struct Speed {
  double seconds = 0;           // for all the arithmetic
  double bytes_per_second = 0;  // memory read and written by an op that only moves data
};
// Must not be called within a rehearsal. Takes up to about 100 MB temporarily.
Speed probe(const std::map<tensor::Work, double>& work);

}  // namespace trl::kernels
