#include "serve/engine/worker.h"

#include <algorithm>

#include "base/threads/thread_pool.h"

namespace trl::serve {

namespace {

constexpr std::chrono::milliseconds kHeld{20};

}  // namespace

void Worker::start(const std::string& name) {
  const std::lock_guard lock(mutex_);
  drains_ = stops_ = false;
  failure_.clear();
  thread_ = base::quiet_thread(("trl-serve-" + name).substr(0, 15), [this] { work(); });
  has_thread_ = true;
}

void Worker::drain() {
  const std::lock_guard lock(mutex_);
  drains_ = true;
}

void Worker::stop() {
  {
    const std::lock_guard lock(mutex_);
    drains_ = stops_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
  const std::lock_guard lock(mutex_);
  has_thread_ = false;
}

void Worker::submit(const std::shared_ptr<Job>& job) {
  {
    const std::lock_guard lock(mutex_);
    if (drains_ || stops_) throw stopping();
    if (!failure_.empty()) throw Refusal(503, failure_);
    if (!sleep_.awake()) throw Refusal(503, sleep_.refusal());
    const int64_t tokens = prompt_tokens(*job);
    if (static_cast<int64_t>(jobs_.size()) >= options_.max_queue)
      throw Refusal(429, "too many requests wait (" + std::to_string(jobs_.size()) + "); try again later");
    if (!jobs_.empty() && queued_tokens_ + tokens > options_.max_queue_tokens)
      throw Refusal(429, "requests with too many prompt tokens wait (" + std::to_string(queued_tokens_) +
                             "); try again later");
    jobs_.push_back(job);
    queued_tokens_ += tokens;
    ++counters_.requests;
  }
  wake_.notify_all();
}

void Worker::cancel(Job& job) {
  job.cancelled = true;
  wake_.notify_all();
}

void Worker::form_done(Job& job) {
  {
    const std::lock_guard lock(mutex_);
    job.ready = true;
  }
  wake_.notify_all();
}

Counters Worker::counters() const {
  const std::lock_guard lock(mutex_);
  Counters now = counters_;
  for (const auto& job : jobs_) {
    const size_t left = completions_left(*job);
    now.waiting += static_cast<int64_t>(left);
    if (job->adapter == nullptr) continue;
    if (left > 0) now.waiting_adapters.insert(job->adapter->name);
    if (left < completions_of(*job)) now.running_adapters.insert(job->adapter->name);
  }
  return now;
}

bool Worker::idle() const {
  const std::lock_guard lock(mutex_);
  return jobs_.empty();
}

std::string Worker::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

bool Worker::failed() const noexcept {
  const std::lock_guard lock(mutex_);
  return !failure_.empty();
}

void Worker::work() {
  table_.own_thread();
  Refusal last = stopping();
  std::string failure;
  try {
    run_turns();
  } catch (...) {
    failure = current_refusal().message;
    last = refused(500, failure);
  }
  {
    const std::lock_guard lock(mutex_);
    failure_ = std::move(failure);
    commands_.clear();
  }
  fail_all(last);
  falling_.clear();
  ends_jobs_ = false;
}

// Without memory for a turn, all requests end with that, and others may come.
void Worker::run_turns() {
  std::unique_lock lock(mutex_);
  for (bool goes_on = true; goes_on;) {
    try {
      goes_on = turn(lock);
    } catch (...) {
      if (!is_out_of_memory()) throw;
      if (lock.owns_lock()) lock.unlock();
      fail_all(no_memory());
      lock.lock();
    }
  }
}

Worker::Jobs Worker::jobs_now() const {
  const std::lock_guard lock(mutex_);
  return jobs_;
}

// Returns whether jobs go on: they are held while the model sleeps.
bool Worker::computes() const { return ends_jobs_ || awake(); }

// soon: something has to be looked at again in a little while.
void Worker::wait_for_work(std::unique_lock<std::mutex>& lock, bool soon) {
  const bool held = !ends_jobs_ && !sleep_.awake();
  const auto goes_on = [](const auto& job) { return job->ready || job->cancelled; };
  const auto ready = [&] {
    return stops_ || !commands_.empty() || !falling_.empty() ||
           (!held && std::ranges::any_of(jobs_, goes_on));
  };
  // Jobs that cannot go on may have waited too long.
  if (!soon) wake_.wait(lock, [&] { return ready() || !jobs_.empty(); });
  wake_.wait_for(lock, kHeld, ready);
}

// Does what there is to do, or waits for it. false: the thread ends.
bool Worker::turn(std::unique_lock<std::mutex>& lock) {
  lock.unlock();
  const bool soon = before_work_ && before_work_();
  lock.lock();
  wait_for_work(lock, soon);
  if (stops_) return false;
  const auto commands = std::exchange(commands_, {});
  const std::vector<std::shared_ptr<Job>> jobs = jobs_;
  lock.unlock();
  busy_ = false;
  for (const auto& command : commands) command();
  drop_lost(jobs);
  if (computes()) {
    take_in(jobs);
    step();
    collect();
  }
  give();
  fall_asleep();
  lock.lock();
  counters_.running = static_cast<int64_t>(running_.size());
  return true;
}

}  // namespace trl::serve
