// How the thread of a model puts it to sleep and wakes it.
#include "serve/engine/worker.h"

namespace trl::serve {

// A call that puts a model to sleep: it is answered once, whatever becomes of the thread.
struct Worker::Falling {
  explicit Falling(Done tell) : done(std::move(tell)) {}
  ~Falling() { answer(refused(503, "the server is stopping")); }
  Falling(const Falling&) = delete;
  Falling& operator=(const Falling&) = delete;
  void answer(const std::optional<Refusal>& why) noexcept {
    const Done tell = std::exchange(done, nullptr);
    try {
      if (tell) tell(why);
    } catch (...) {  // no memory: whoever waits learns that nobody tells
    }
  }
  Done done;
};

bool Worker::awake() const {
  const std::lock_guard lock(mutex_);
  return sleep_.awake();
}

void Worker::set_whole(bool whole) {
  const std::lock_guard lock(mutex_);
  sleep_.set_whole(whole);
}

bool Worker::whole() const {
  const std::lock_guard lock(mutex_);
  return sleep_.whole();
}

void Worker::sleep(int64_t level, SleepMode mode, Done done) {
  check_level(level, mode);
  auto call = std::make_shared<Falling>(std::move(done));
  {
    const std::lock_guard lock(mutex_);
    if (has_thread_) {
      if (stops_ || !failure_.empty()) return;  // which answers
      commands_.push_back([this, level, mode, call] {
        try {
          begin_to_fall(level, mode, call);
        } catch (...) {
          call->answer(current_refusal());
        }
      });
      wake_.notify_all();
      return;
    }
  }
  const std::lock_guard alone(alone_);
  ErrorHandle error;
  check(trl_generator_release_memory(generator_, error.out()), error);
  const std::lock_guard lock(mutex_);
  sleep_.fall(static_cast<int>(level));
  call->answer(std::nullopt);
}

void Worker::begin_to_fall(int64_t level, SleepMode mode, std::shared_ptr<Falling> call) {
  if (mode == SleepMode::keep && ends_jobs_)
    throw Refusal(409, "mode: keep is not accepted while another call waits for requests to end", "mode");
  {
    const std::lock_guard lock(mutex_);
    sleep_.fall(static_cast<int>(level));  // from here on no job comes
  }
  falling_.push_back(std::move(call));
  ends_jobs_ |= mode == SleepMode::wait;
  if (mode != SleepMode::abort) return;
  for (const std::shared_ptr<Job>& job : jobs_now())
    if (!job->cancelled)
      abort_job(job, Refusal(503, "the model was put to sleep; send the request again later"));
}

// Gives the memory back, once no job goes on.
void Worker::fall_asleep() {
  if (falling_.empty() || busy_ || (ends_jobs_ && !idle())) return;
  ErrorHandle error;
  const trl_status status = trl_generator_release_memory(generator_, error.out());
  if (status == TRL_E_BUSY || status == TRL_E_CANCELLED) return wait_for_model(status);
  ends_jobs_ = false;
  std::optional<Refusal> why;
  if (status != TRL_OK) why = refusal_of(error.get());
  for (const auto& call : std::exchange(falling_, {})) call->answer(why);
}

void Worker::wake_up(WakeTags tags, Ran ran) {
  between_steps(
      [this, tags](trl_generator*) {
        {
          const std::lock_guard lock(mutex_);
          sleep_.wake(tags);
          if (!sleep_.awake()) return true;
        }
        ends_jobs_ = false;
        for (const auto& call : std::exchange(falling_, {}))
          call->answer(refused(409, "the model was woken before it slept"));
        return true;
      },
      std::move(ran));
}

}  // namespace trl::serve
