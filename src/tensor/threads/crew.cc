#include "tensor/threads/crew.h"

#include <omp.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <system_error>
#include <vector>

#include "base/arithmetic/plain_arithmetic.h"
#include "base/threads/quiet_thread.h"
#include "tensor/threads/countdown.h"
#include "tensor/threads/openmp_threads.h"

namespace trl::tensor {

namespace {

thread_local constinit bool within_part = false;
struct Within {
  Within() { within_part = true; }
  ~Within() { within_part = false; }
};

class Crew {
 public:
  Crew() = default;
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;
  ~Crew() {
    part_ = nullptr;
    for (const auto& member : members_) member->called.arrive();
    for (const auto& member : members_) member->thread.join();
  }

  // Whether the members belong to this process: a child after fork has none of them.
  bool is_here() const { return process_ == ::getpid(); }

  void run(int64_t count, void (*part)(const void*, int64_t), const void* context) {
    const int64_t helpers = std::min(count - 1, grow(count - 1));
    part_ = part;
    context_ = context;
    working_.start(static_cast<uint32_t>(helpers));
    for (int64_t i = 0; i < helpers; ++i) members_[static_cast<size_t>(i)]->called.arrive();
    part(context, 0);
    for (int64_t i = helpers + 1; i < count; ++i) part(context, i);
    working_.wait();
  }

 private:
  struct alignas(64) Member {
    Countdown called{1};
    std::thread thread;
  };

  // Adds members, and returns their number: fewer than wanted if the system starts no more threads.
  int64_t grow(int64_t wanted) {
    while (static_cast<int64_t>(members_.size()) < wanted) {
      auto member = std::make_unique<Member>();
      const auto number = static_cast<int64_t>(members_.size()) + 1;
      try {
        member->thread = base::quiet_thread(fmt::format("trl-kernel-{}", number),
                                            [this, own = member.get(), number] { serve(*own, number); });
      } catch (const std::system_error&) {
        break;
      }
      members_.push_back(std::move(member));
    }
    return static_cast<int64_t>(members_.size());
  }

  void serve(Member& own, int64_t number) {
    const Within within;
    const base::PlainArithmetic plain;  // independent of the settings of the thread that started this one
    set_openmp_threads(1);              // else oneDNN and libtorch would start a team for this thread
    for (own.called.wait(); part_ != nullptr; own.called.wait()) {
      own.called.start(1);
      part_(context_, number);
      working_.arrive();
    }
  }

  const pid_t process_ = ::getpid();
  std::vector<std::unique_ptr<Member>> members_;
  Countdown working_{0};
  void (*part_)(const void*, int64_t) = nullptr;  // null: the members end when they are called
  const void* context_ = nullptr;
};

// Also used after the destruction of the thread's objects, by code that the host calls at exit.
thread_local constinit Crew* own_crew = nullptr;
thread_local constinit bool thread_ends = false;

struct EndsCrew {
  ~EndsCrew() {
    thread_ends = true;
    end_crew();
  }
};

}  // namespace

void on_crew(int64_t count, void (*part)(const void*, int64_t), const void* context) {
  if (count <= 1 || within_part || thread_ends || omp_in_parallel()) {
    for (int64_t i = 0; i < count; ++i) part(context, i);
    return;
  }
  if (own_crew == nullptr) {
    static thread_local const EndsCrew ends;
    own_crew = new Crew;
  }
  const Within within;
  own_crew->run(count, part, context);
}

void end_crew() {
  Crew* const crew = std::exchange(own_crew, nullptr);
  if (crew != nullptr && crew->is_here()) delete crew;
}

}  // namespace trl::tensor
