// A sequence as its owner sees it, and blocks that hold what a model would have written into them.
#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "generate/scheduler.h"
#include "kernels/kinds.h"

namespace trl::test {

using generate::Limits;
using generate::Scheduler;
using kernels::kCacheRows;

inline uint64_t mixed(uint64_t a, uint64_t b) {
  uint64_t x = a + 0x9E3779B97F4A7C15u * (b + 1);
  x = (x ^ (x >> 31)) * 0xBF58476D1CE4E5B9u;
  return x ^ (x >> 29);
}

// A sequence as its owner sees it. keys: what keys and values of each position must depend on: the ids up to
// it, the weights, what is `apart`, and, beyond Limits::common_length, the reach.
struct Life {
  std::vector<int32_t> ids;
  std::vector<uint64_t> keys;
  std::vector<std::pair<int64_t, int64_t>> given;
  uint64_t apart = 0;
  int64_t arrival = 0;  // among those of all histories
  int64_t group = 0;    // the first of those that were added with it
  bool follows = true;  // it waits for the rows of its group
  int64_t left = 0;     // tokens to generate
  int64_t pauses = 0;   // how often it goes on after its end
  bool paused = false;
  std::optional<int64_t> computed;  // positions; empty: nothing that is still valid
  int64_t begun_at = 0;             // the first position of its last step, which may have failed
  int64_t next = 0;                 // the first position that was not computed before the last step
  bool held = false;                // it had blocks before the last step
  bool works = false;               // in the last step
  int64_t rows = 0;                 // that it computes there
};

class History;

// The blocks of some schedulers, which compute with the same weights.
struct Store {
  using Cells = std::array<uint64_t, kCacheRows>;
  explicit Store(int64_t blocks)
      : pool(std::make_shared<generate::BlockPool>(blocks)),
        memory(static_cast<size_t>(blocks)),
        allocated(static_cast<size_t>(blocks)) {}
  std::shared_ptr<generate::BlockPool> pool;
  std::vector<Cells> memory;          // by block
  std::vector<bool> allocated;        // by block
  bool may_refuse = true;             // memory for more of them
  std::array<uint64_t, 2> weights{};  // behind the keys of each number in Life::apart
  int64_t arrivals = 0;
  std::vector<History*> histories;
};

}  // namespace trl::test
