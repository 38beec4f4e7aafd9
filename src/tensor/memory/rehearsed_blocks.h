// The notes of a rehearsal about the blocks that are taken during its lifetime.
#pragma once
#include "tensor/memory/block_pool.h"
#include "tensor/memory/rehearsal.h"

namespace trl::tensor {

struct Rehearsal::State {
  BlockPool pool{BlockPool::Pages::none};
  std::vector<Taken> taken;
  std::vector<Event> events;
  std::map<Work, double> work;
  double clock = 0;
  int64_t left = 0;
  std::string_view stage = "open";

  size_t take(base::MemoryKind kind, int64_t bytes, std::string_view in) {
    taken.push_back({kind, in, bytes, std::ssize(events)});
    events.push_back({clock, stage});
    return taken.size() - 1;
  }
  void give(size_t number) {
    taken[number].to = std::ssize(events);
    events.push_back({clock, stage});
  }
};

}  // namespace trl::tensor
