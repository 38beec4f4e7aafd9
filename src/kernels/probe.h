// How long the arithmetic of a rehearsal takes on this machine: its larger products are timed, for about half
// a second in all.
#pragma once
#include <map>

#include "tensor/memory/rehearsal.h"

namespace trl::kernels {

struct Speed {
  double seconds = 0;           // of all the arithmetic
  double bytes_per_second = 0;  // of memory, read and written, by an op that does nothing else
};
// Must not be called within a rehearsal. Takes at most about 100 MB for a moment.
Speed probe(const std::map<tensor::Work, double>& work);

}  // namespace trl::kernels
