// Workers for text, data and files (never for kernels, which have tensor/threads/crew.h). A pool is an
// object, not a global: its owner decides how many threads it has, and none exists before the first parallel
// call.
#pragma once
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
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

}  // namespace trl::base
