// The threads of parallel regions. Each thread that computes has its own crew, which starts with the thread's
// first region and ends with the thread. Waiting threads spin briefly and then sleep (Countdown), unlike
// libgomp's, which spin for milliseconds and so keep processors from other threads that need them.
#pragma once
#include <atomic>
#include <chrono>
#include <cstdint>

namespace trl::tensor {

// Calls part(i) for each i in [0, count), each on a separate thread if there are enough: the caller takes the
// first. Runs them one after another within such a part, and in a parallel region of the host's, which has
// its own threads. part must not throw.
void on_crew(int64_t count, void (*part)(const void* context, int64_t i), const void* context);

template <typename Part>
void on_crew(int64_t count, const Part& part) {
  on_crew(
      count, [](const void* context, int64_t i) { (*static_cast<const Part*>(context))(i); }, &part);
}

void end_crew();  // this thread's; the next region starts a new one

// A number that threads count down to 0, and one thread that waits for 0. It spins, and sleeps if spinning
// was in vain. Waking takes longer than most waits last; but if others need the processor, the thread that is
// waited for may only get it when this one sleeps. So it spins for as long as has paid off lately, initially
// for as long as a futex takes, and tries now and then whether longer would pay off.
class Countdown {
 public:
  explicit Countdown(uint32_t count);
  void start(uint32_t count) { left_.store(count, std::memory_order_relaxed); }  // while no thread waits
  void arrive();
  void wait();

 private:
  using Clock = std::chrono::steady_clock;
  bool spin(Clock::duration most, Clock::duration& taken) const;
  void sleep();

  // A flag in left_, next to the count: the waiting thread must be woken.
  static constexpr uint32_t kSleeps = 1u << 31;
  std::atomic<uint32_t> left_;
  // Only used by the waiting thread.
  Clock::duration spins_for_;
  uint32_t waits_ = 0, tries_each_;
};

}  // namespace trl::tensor
