// Two threads that parse, render, encode and write texts, so that neither the connections nor the models wait
// for it.
#pragma once
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace trl::serve {

class TextPool {
 public:
  using Task = std::function<void()>;  // answers its own exceptions
  // begin: called first on each thread.
  void start(int threads, const Task& begin);
  void stop();           // runs the tasks that wait, then ends the threads
  void post(Task task);  // dropped once it stops. Throws std::bad_alloc

 private:
  void work();
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Task> tasks_;
  std::vector<std::thread> threads_;
  bool stops_ = false;
};

// Tasks of one request, which run one after the other in the order in which they came.
class Strand : public std::enable_shared_from_this<Strand> {
 public:
  explicit Strand(TextPool& pool) : pool_(pool) {}
  void post(TextPool::Task task);  // throws std::bad_alloc

 private:
  void run();
  TextPool& pool_;
  std::mutex mutex_;
  std::deque<TextPool::Task> tasks_;
  bool runs_ = false;
};

}  // namespace trl::serve
