#include "serve/text_pool.h"

#include "base/threads/thread_pool.h"

namespace trl::serve {

namespace {

// The thread goes on after a task that could not even answer for what it threw.
void run_guarded(const TextPool::Task& task) noexcept {
  try {
    task();
  } catch (...) {
  }
}

}  // namespace

void TextPool::start(int threads, const Task& begin) {
  stops_ = false;
  threads_.reserve(static_cast<size_t>(threads));
  while (static_cast<int>(threads_.size()) < threads)
    threads_.push_back(base::quiet_thread("trl-serve-text", [this, begin] {
      begin();
      work();
    }));
}

void TextPool::stop() {
  {
    const std::lock_guard lock(mutex_);
    stops_ = true;
  }
  wake_.notify_all();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

void TextPool::post(Task task) {
  {
    const std::lock_guard lock(mutex_);
    if (stops_) return;
    tasks_.push_back(std::move(task));
  }
  wake_.notify_one();
}

void TextPool::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    wake_.wait(lock, [this] { return stops_ || !tasks_.empty(); });
    if (tasks_.empty()) return;
    {
      const Task task = std::move(tasks_.front());
      tasks_.pop_front();
      lock.unlock();
      run_guarded(task);
    }
    lock.lock();
  }
}

void Strand::post(TextPool::Task task) {
  const std::lock_guard lock(mutex_);
  tasks_.push_back(std::move(task));
  if (runs_) return;
  try {
    pool_.post([me = shared_from_this()] { me->run(); });
  } catch (...) {
    tasks_.pop_back();
    throw;
  }
  runs_ = true;
}

void Strand::run() {
  for (;;) {
    TextPool::Task task;
    {
      const std::lock_guard lock(mutex_);
      if (tasks_.empty()) {
        runs_ = false;
        return;
      }
      task = std::move(tasks_.front());
      tasks_.pop_front();
    }
    run_guarded(task);
  }
}

}  // namespace trl::serve
