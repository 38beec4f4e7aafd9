#include "base/threads/thread_pool.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <utility>

#include "base/interrupt.h"
#include "base/threads/quiet_thread.h"

namespace trl::base {
namespace {

constexpr std::chrono::milliseconds kPollEvery{20};
thread_local bool in_a_pool = false;

struct InPool {
  const bool before = std::exchange(in_a_pool, true);
  ~InPool() { in_a_pool = before; }
};

}  // namespace

bool in_pool() noexcept { return in_a_pool; }

struct ThreadPool::Job {
  const std::function<void(int64_t, int64_t)>* body;
  Interrupt* interrupt;  // the caller's
  int64_t count;
  int64_t grain;
  int64_t next = 0;
  int running = 0;
  int64_t failed_at = -1;
  std::exception_ptr error;

  // Under the pool's lock: takes pieces until none is left, or one failed before the next.
  void run(std::unique_lock<std::mutex>& lock) {
    const InterruptScope scope(interrupt);
    const InPool inside;
    ++running;
    while (next < count && failed_at < 0) {
      const int64_t begin = next;
      next = std::min(count, begin + grain);
      const int64_t end = next;
      lock.unlock();
      std::exception_ptr thrown;
      try {
        (*body)(begin, end);
      } catch (...) {
        thrown = std::current_exception();
      }
      lock.lock();
      if (thrown && (failed_at < 0 || begin < failed_at)) {
        failed_at = begin;
        error = thrown;
      }
    }
    --running;
  }
};

ThreadPool::~ThreadPool() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::start() {
  while (static_cast<int>(workers_.size()) < size_ - 1) {
    workers_.push_back(quiet_thread(fmt::format("trl-worker-{}", workers_.size()), [this] { work(); }));
  }
}

void ThreadPool::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    wake_.wait(lock, [this] {
      return stop_ || (job_ != nullptr && job_->next < job_->count && job_->failed_at < 0);
    });
    if (stop_) return;
    job_->run(lock);
    if (job_->running == 0) done_.notify_all();
  }
}

void ThreadPool::parallel_for(int64_t count, int64_t grain,
                              const std::function<void(int64_t, int64_t)>& body) {
  if (count <= 0) return;
  grain = std::max<int64_t>(1, grain);
  if (size_ == 1 || count <= grain) return body(0, count);
  std::unique_lock lock(mutex_);
  while (!done_.wait_for(lock, kPollEvery, [this] { return job_ == nullptr; })) {
    lock.unlock();
    poll();
    lock.lock();
  }
  start();
  Job job{&body, thread_interrupt(), count, grain, 0, 0, -1, nullptr};
  job_ = &job;
  wake_.notify_all();
  job.run(lock);
  done_.wait(lock, [&] { return job.running == 0; });
  job_ = nullptr;
  done_.notify_all();
  if (job.error) std::rethrow_exception(job.error);
}

}  // namespace trl::base
