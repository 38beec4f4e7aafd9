// Timing a body again and again, and the memory that it takes beyond what was there.
#pragma once
#include <algorithm>
#include <fstream>
#include <vector>

#include "support/child.h"

namespace trl::bench {

// After one that is not counted: as many as fit into `seconds`, three at least.
template <typename Body>
std::vector<double> repeat(double seconds, const Body& body) {
  body();
  std::vector<double> all;
  const double start = now();
  while (all.size() < 3 || now() - start < seconds) {
    const double begin = now();
    body();
    all.push_back(now() - begin);
  }
  return all;
}

// The fastest of them.
template <typename Body>
double best_seconds(double seconds, const Body& body) {
  const std::vector<double> all = repeat(seconds, body);
  return *std::min_element(all.begin(), all.end());
}

// The most resident from here on, above what is resident here (proc(5): clear_refs, 5).
class ExtraMemory {
 public:
  ExtraMemory() {
    std::ofstream("/proc/self/clear_refs") << 5;
    before_ = status_bytes("VmRSS");
  }
  long bytes() const { return status_bytes("VmHWM") - before_; }

 private:
  long before_;
};

}  // namespace trl::bench
