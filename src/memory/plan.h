// What a step takes, from a list of holdings: who holds how much from when to when. Does not know the
// trainer.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace trl::memory {

// from, to: numbers of events, to not included.
struct Holding {
  std::string term;
  int64_t bytes;
  int64_t from, to;
};

struct Term {
  std::string name;
  int64_t at_peak = 0;  // bytes, when all terms together are most
  int64_t most = 0;     // bytes, at any time
};

struct Plan {
  int64_t peak = 0;         // bytes
  int64_t peak_event = -1;  // after which it is reached
  std::vector<Term> terms;  // in the order in which they begin
  // Bytes of each term after those events, at most as many as were asked for; the peak is one of them.
  struct Moment {
    int64_t event;
    std::vector<int64_t> bytes;
  };
  std::vector<Moment> moments;
};

// events: how many there are. moments: about how many are wanted. borders: events, ascending, from which on a
// moment stands for none before: the beginnings of stages.
Plan plan(std::span<const Holding> holdings, int64_t events, int64_t moments,
          std::span<const int64_t> borders = {});

}  // namespace trl::memory
