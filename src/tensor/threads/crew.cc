#include "tensor/threads/crew.h"

#include <fmt/format.h>
#include <linux/futex.h>
#include <omp.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <algorithm>
#include <memory>
#include <system_error>
#include <utility>
#include <vector>

#include "base/arithmetic/plain_arithmetic.h"
#include "base/threads/thread_pool.h"
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
    members_.reserve(
        static_cast<size_t>(std::max<int64_t>(wanted, 0)));  // a thread without a place could not be ended
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

using std::chrono::microseconds;
constexpr microseconds kLeast{3}, kMost{200};
// One wait in this many is longer, to see if that pays off.
constexpr uint32_t kTriesOften = 4, kTriesSeldom = 512;

void pause() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

long futex(std::atomic<uint32_t>& word, int operation, uint32_t value) noexcept {
  return ::syscall(SYS_futex, &word, operation, value, nullptr, nullptr, 0);
}

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

Countdown::Countdown(uint32_t count) : left_(count), spins_for_(kLeast), tries_each_(kTriesOften) {}

void Countdown::arrive() {
  if (left_.fetch_sub(1, std::memory_order_acq_rel) == (kSleeps | 1)) futex(left_, FUTEX_WAKE_PRIVATE, 1);
}

// Returns whether the count reached 0 in time.
bool Countdown::spin(Clock::duration most, Clock::duration& taken) const {
  const Clock::time_point begin = Clock::now();
  do {
    for (int i = 0; i < 8; ++i) {
      if (left_.load(std::memory_order_acquire) == 0) return taken = Clock::now() - begin, true;
      pause();
    }
  } while (Clock::now() - begin < most);
  return false;
}

void Countdown::sleep() {
  uint32_t left = left_.fetch_or(kSleeps, std::memory_order_acquire) | kSleeps;
  while (left != kSleeps) {
    futex(left_, FUTEX_WAIT_PRIVATE, left);
    left = left_.load(std::memory_order_acquire);
  }
}

void Countdown::wait() {
  if (left_.load(std::memory_order_acquire) == 0) return;
  const bool tries = ++waits_ % tries_each_ == 0;
  Clock::duration taken{};
  if (spin(tries ? kMost : spins_for_, taken)) {
    spins_for_ = std::clamp<Clock::duration>(2 * taken, spins_for_, kMost);
    if (tries) tries_each_ = std::max(kTriesOften, tries_each_ / 2);
  } else {
    spins_for_ = std::max<Clock::duration>(kLeast, spins_for_ / 2);
    if (tries) tries_each_ = std::min(kTriesSeldom, tries_each_ * 2);
    sleep();
  }
}

}  // namespace trl::tensor
