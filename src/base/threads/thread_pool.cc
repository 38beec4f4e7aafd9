#include "base/threads/thread_pool.h"

#include <fmt/format.h>
#include <pthread.h>
#include <sched.h>
#include <algorithm>
#include <chrono>
#include <exception>
#include <string>
#include <utility>

#include "base/interrupt.h"
#include "base/memory/system_memory.h"
#include "base/text/number.h"

namespace trl::base {

namespace {

constexpr std::chrono::milliseconds kPollEvery{20};
thread_local bool in_a_pool = false;

struct InPool {
  const bool before = std::exchange(in_a_pool, true);
  ~InPool() { in_a_pool = before; }
};

constexpr int kNoLimit = 1 << 20;

int cpus_of(std::string_view quota, std::string_view period) {
  const auto share = parse_int64(quota), whole = parse_int64(period);
  if (!share || !whole || *share <= 0 || *whole <= 0) return kNoLimit;
  return static_cast<int>(std::clamp<int64_t>((*share + *whole - 1) / *whole, 1, kNoLimit));
}

// Reads a quota. "cpu.max" of version 2 is "<quota> <period>", "max" for no quota; version 1 has a file for
// each, -1 for none (Linux Documentation/admin-guide/cgroup-v2.rst, scheduler/sched-bwc.rst).
int quota_in(const std::string& directory) {
  const std::string both = first_line(directory + "/cpu.max");
  if (const size_t space = both.find(' '); space != std::string::npos)
    return cpus_of(std::string_view(both).substr(0, space), std::string_view(both).substr(space + 1));
  return cpus_of(first_line(directory + "/cpu.cfs_quota_us"), first_line(directory + "/cpu.cfs_period_us"));
}

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
  workers_.reserve(static_cast<size_t>(size_ - 1));  // a thread that has no place here could not be ended
  while (static_cast<int>(workers_.size()) < size_ - 1)
    workers_.push_back(quiet_thread(fmt::format("trl-worker-{}", workers_.size()), [this] { work(); }));
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

NoSignals::NoSignals() noexcept {
  sigset_t all;
  sigfillset(&all);
  sigdelset(&all, SIGBUS);
  pthread_sigmask(SIG_SETMASK, &all, &before_);
}
NoSignals::~NoSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

void name_thread(const std::string& name) noexcept { pthread_setname_np(pthread_self(), name.c_str()); }

StartingThreads::StartingThreads(const char* name) noexcept {
  pthread_getname_np(pthread_self(), before_, sizeof before_);
  pthread_setname_np(pthread_self(), name);  // a new thread inherits it
}
StartingThreads::~StartingThreads() { pthread_setname_np(pthread_self(), before_); }

std::thread quiet_thread(const std::string& name, std::function<void()> body) {
  const StartingThreads starting(name.c_str());
  return std::thread(std::move(body));
}

int cgroup_cpus(std::string_view groups, const std::string& mounts) {
  int cpus = kNoLimit;
  each_cgroup(groups, mounts, "cpu",
              [&](const std::string& directory) { cpus = std::min(cpus, quota_in(directory)); });
  return cpus;
}

int available_cpus() {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  const int allowed = sched_getaffinity(0, sizeof mask, &mask) == 0 ? CPU_COUNT(&mask) : 1;
  return std::max(1, std::min(allowed, cgroup_cpus(own_cgroups(), kCgroupMounts)));
}

}  // namespace trl::base
