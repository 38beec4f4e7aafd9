// The memory that a step takes, from a list of holdings: who holds how much from when to when. Knows nothing
// of the trainer.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace trl::memory {

// from, to: numbers of events; `to` is exclusive.
struct Holding {
  std::string term;
  int64_t bytes;
  int64_t from, to;
};

struct Term {
  std::string name;
  int64_t at_peak = 0;  // bytes when the sum of all terms is largest
  int64_t most = 0;     // bytes, the term's own maximum
};

struct Plan {
  int64_t peak = 0;         // bytes
  int64_t peak_event = -1;  // the event after which it is reached
  std::vector<Term> terms;  // in the order in which they begin
  // Bytes of each term after certain events, at most as many as requested; the peak is one of them.
  struct Moment {
    int64_t event;
    std::vector<int64_t> bytes;
  };
  std::vector<Moment> moments;
};

// events: their number. moments: roughly the wanted number. borders: ascending events at which stages begin;
// a moment from there on never represents an earlier one.
Plan plan(std::span<const Holding> holdings, int64_t events, int64_t moments,
          std::span<const int64_t> borders = {});

}  // namespace trl::memory
