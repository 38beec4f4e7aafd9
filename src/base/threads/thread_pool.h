// Workers for text, data and files (never for kernels, which have tensor/threads/crew.h). A pool is an
// object, not a global: its owner decides how many threads it has, and none exists before the first parallel
// call.
#pragma once
#include <signal.h>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace trl::base {

// Returns whether this thread works for a pool. A pause does not hold it there, because other calls wait for
// the pool.
bool in_pool() noexcept;

class ThreadPool {
 public:
  explicit ThreadPool(int threads) : size_(threads < 1 ? 1 : threads) {}
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;
  int size() const { return size_; }

  // Runs body(begin, end) over [0, count) in pieces of at most grain, on the caller and the workers; returns
  // when all are done and rethrows the exception of the lowest piece that threw, so that errors do not depend
  // on the threads.
  void parallel_for(int64_t count, int64_t grain, const std::function<void(int64_t, int64_t)>& body);

 private:
  struct Job;
  void start();
  void work();
  const int size_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::condition_variable done_;
  Job* job_ = nullptr;
  bool stop_ = false;
  std::vector<std::thread> workers_;
};

// The library's threads take no signals: signals belong to the host's own threads, which wait for them or
// have handlers. Only SIGBUS is not blocked: a thread gets it for its own reads (mapped_reads.h).

// While this lives, the calling thread takes no signals; a thread that it starts never takes any.
class NoSignals {
 public:
  NoSignals() noexcept;
  ~NoSignals();
  NoSignals(const NoSignals&) = delete;
  NoSignals& operator=(const NoSignals&) = delete;

 private:
  sigset_t before_;
};

// Threads that this thread starts while this lives, other libraries' too, take no signals and get this name.
class StartingThreads {
 public:
  explicit StartingThreads(const char* name) noexcept;
  ~StartingThreads();

 private:
  const NoSignals quiet_;
  char before_[16] = "";
};

// name: at most 15 bytes, for ps and debuggers.
void name_thread(const std::string& name) noexcept;  // this one
std::thread quiet_thread(const std::string& name, std::function<void()> body);

// Returns the number of threads that this process may use: the smaller of the affinity mask and the quotas of
// the cgroup and all cgroups above it; at least 1.
int available_cpus();

// Returns the number that the quotas allow; a large number without any. groups: lines of /proc/self/cgroup;
// mounts: the mount point of the hierarchies, /sys/fs/cgroup.
int cgroup_cpus(std::string_view groups, const std::string& mounts);

}  // namespace trl::base
