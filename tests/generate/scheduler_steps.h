// Steps of a Scheduler without a model.
#pragma once
#include <cstdint>
#include <numeric>
#include <vector>

#include "generate/scheduler.h"

namespace trl::test {

inline std::vector<int32_t> counted_ids(int64_t count, int32_t first = 0) {
  std::vector<int32_t> ids(static_cast<size_t>(count));
  std::iota(ids.begin(), ids.end(), first);
  return ids;
}

// Computes the next step, and gives each sequence that is ready a token.
inline generate::Scheduler::Step step(generate::Scheduler& scheduler) {
  const generate::Scheduler::Step step = scheduler.next();
  scheduler.done(step);
  for (const generate::Scheduler::Work& work : step.work)
    for (const int64_t sequence : work.ready) scheduler.append(sequence, static_cast<int32_t>(sequence));
  return step;
}

}  // namespace trl::test
