// Runs the same code without computing anything, to learn what it would allocate, and when. During a
// Rehearsal's lifetime on a thread, tensors that this thread makes have addresses but no pages, and
// parallel_for calls nothing, so that a step of any size takes a moment. It is not a second model of the
// code: it runs the code itself. Code that would change anything besides such tensors must check current()
// first.
#pragma once
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <string_view>
#include <vector>

#include "base/memory/memory.h"
#include "tensor/memory/block_pool.h"

namespace trl::tensor {

// A block that was taken in some stage. from, to: the number of the event, counted over all taking and
// returning.
struct Taken {
  base::MemoryKind kind;
  std::string_view stage;
  int64_t bytes;
  int64_t from;
  int64_t to = std::numeric_limits<int64_t>::max();  // unchanged if it was never returned
};

// Arithmetic of one shape: a product [rows, depth] [depth, columns], with values of `bytes` bytes each.
enum class Job : uint8_t { product, panels, head, attention, memory };
struct Work {
  Job job;
  std::string_view stage;
  int64_t rows = 0, columns = 0, depth = 0, bytes = 0;
  bool transposed = false;  // whether the left matrix is
  auto operator<=>(const Work&) const = default;
};

class BlockPool;

class Rehearsal {
 public:
  Rehearsal();
  ~Rehearsal();
  Rehearsal(const Rehearsal&) = delete;
  Rehearsal& operator=(const Rehearsal&) = delete;
  static Rehearsal* current() noexcept { return current_; }

  // times: how often; flops: operations of all times together.
  void note(const Work& work, double flops, double times = 1);

  void note_leaving(int64_t bytes);  // to a file; they are read back later

  const std::vector<Taken>& taken() const;
  const std::map<Work, double>& work() const;
  int64_t left() const;  // bytes that left
  struct Event {
    double clock;  // operations done before it
    std::string_view stage;
  };
  const std::vector<Event>& events() const;

  struct State;
  const std::shared_ptr<State>& state() { return state_; }

 private:
  friend class Stage;
  static inline constinit thread_local Rehearsal* current_ = nullptr;
  Rehearsal* const before_;
  const std::shared_ptr<State> state_;  // blocks may outlive the rehearsal
};

// Attributes blocks taken during its lifetime to `name`, a literal; an inner stage takes precedence. Does
// nothing outside a rehearsal.
class Stage {
 public:
  explicit Stage(const char* name) noexcept;
  ~Stage();
  Stage(const Stage&) = delete;
  Stage& operator=(const Stage&) = delete;

 private:
  const std::shared_ptr<Rehearsal::State> state_;
  std::string_view before_;
};

// The notes of a rehearsal about the blocks that are taken during its lifetime.
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

// The stage under which MappedPages are noted.
inline constexpr std::string_view kMappedPages = "mapped";

// Resident pages that the memory counter does not include, of mapped files and of OpenBLAS: notes this many
// bytes for its lifetime. Does nothing outside a rehearsal.
class MappedPages {
 public:
  MappedPages(base::MemoryKind kind, int64_t bytes);
  ~MappedPages();
  MappedPages(const MappedPages&) = delete;
  MappedPages& operator=(const MappedPages&) = delete;

 private:
  const std::shared_ptr<Rehearsal::State> state_;
  size_t number_ = 0;
};

}  // namespace trl::tensor
