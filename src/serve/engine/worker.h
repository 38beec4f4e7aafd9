// The thread of one model: takes jobs by turns of their peers, computes steps, gives completions to their
// sinks. The only caller of the generator.
#pragma once
#include <condition_variable>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "capi/serve_table.h"
#include "serve/engine/counters.h"
#include "serve/engine/job.h"
#include "serve/engine/sleep.h"
#include "serve/options.h"

namespace trl::serve {

class Worker {
 public:
  // The arguments outlive this.
  Worker(const capi::ServeTable& table, trl_generator* generator, const ModelOptions& options)
      : table_(table), generator_(generator), options_(options) {}
  void start(const std::string& name);
  void drain();  // submit() refuses from now on
  void stop();   // cancels what runs, and ends the thread
  // Throws Refusal(429, 503).
  void submit(const std::shared_ptr<Job>& job);
  void cancel(Job& job);  // any thread; its sink hears no more
  // Lets a job begin whose form is compiled, or ends it if that is refused. Any thread.
  void form_done(Job& job);
  // Runs body on the model's thread between two steps, and waits for it; without a thread here. Passes on
  // what it throws.
  void between_steps(const std::function<void(trl_generator*)>& body);
  // The same without waiting. body: returns whether it is done; else it is called again soon. ran: called
  // once, on any thread, with what body threw, or why it was not called; null: it is done. Without a thread
  // all of it happens here. Throws std::bad_alloc.
  using Body = std::function<bool(trl_generator*)>;
  using Ran = std::function<void(const std::exception_ptr& why)>;
  void between_steps(Body body, Ran ran);
  // Has a function called on the model's thread before it looks for work; it returns whether it wants another
  // call soon. Before start().
  void before_work(std::function<bool()> call) { before_work_ = std::move(call); }

  // Puts the model to sleep. Calls done once, on any thread: when it sleeps, or with why it does not. Throws
  // Refusal(400).
  using Done = std::function<void(const std::optional<Refusal>& why)>;
  void sleep(int64_t level, SleepMode mode, Done done);
  void wake_up(WakeTags tags, Ran ran);
  bool awake() const;
  // false: refuses jobs until the weights are whole again.
  void set_whole(bool whole);
  bool whole() const;
  Counters counters() const;
  bool idle() const;            // no job waits or runs
  std::string failure() const;  // why the thread has ended; empty: it runs
  bool failed() const noexcept;

 private:
  using Clock = std::chrono::steady_clock;
  using Jobs = std::vector<std::shared_ptr<Job>>;
  static constexpr std::chrono::milliseconds kBusy{
      2};  // until a call that found the model in use is repeated
  struct Running {
    std::shared_ptr<Job> job;
    size_t completion = 0;
    int64_t tokens = 0, counted = 0;  // so far; after the step before
    bool grew = false, may_be_over = false;
    Part part;                                   // of this step
    Clock::time_point began{}, first{}, last{};  // it, its first token and its last
  };
  struct Entry {  // a job that waits or runs
    size_t running = 0;
    std::vector<Part> parts;
  };

  void work();
  bool turn(std::unique_lock<std::mutex>& lock);
  void drop_lost(const Jobs& jobs);
  std::shared_ptr<Job> next_job(const Jobs& jobs);
  void take_in(const Jobs& jobs);
  void run_turns();
  void add_completions(const std::shared_ptr<Job>& job, size_t count);
  void tell_began(const Job& job, size_t completion) noexcept;
  void wait_for_model(trl_status status);
  static int32_t on_token(void* any, size_t number, int32_t id, const char* text, size_t size,
                          double) noexcept;
  void step();
  void collect();
  bool take(size_t number, Running& running);
  void count(const Running& running, const char* reason);
  bool take_or_starve(size_t number, Running& running);
  void give();
  void cancel_completions(const Job& job, std::vector<Part>* parts) noexcept;
  void end_job(Job& job, const Refusal& refusal) noexcept;
  void end_starved() noexcept;
  void remove(Job& job) noexcept;
  void fail_all(const Refusal& refusal) noexcept;
  template <class Wanted>
  std::shared_ptr<Job> first_job(const Wanted& wanted) const noexcept;
  Jobs jobs_now() const;
  bool computes() const;
  void wait_for_work(std::unique_lock<std::mutex>& lock, bool soon);
  void abort_job(const std::shared_ptr<Job>& job, const Refusal& refusal);
  struct Falling;
  struct Command;
  void try_command(const std::shared_ptr<Command>& command) noexcept;
  void begin_to_fall(int64_t level, SleepMode mode, std::shared_ptr<Falling> call);
  void fall_asleep();

  const capi::ServeTable& table_;
  trl_generator* const generator_;
  const ModelOptions& options_;
  std::thread thread_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  // Under the lock.
  Jobs jobs_;  // in the order in which they came
  std::vector<std::function<void()>> commands_;
  int64_t queued_tokens_ = 0;
  bool drains_ = false, stops_ = false, has_thread_ = false;
  SleepState sleep_;
  std::string failure_;
  Counters counters_;
  // Members that only the thread uses.
  std::map<const Job*, Entry> entries_;
  std::map<size_t, Running> running_;              // by the generator's numbers
  std::set<int32_t> ends_;                         // ids that have ended a completion
  bool busy_ = false;                              // a call of the host uses the model
  bool ends_jobs_ = false;                         // jobs go on to their end, before the model sleeps
  std::vector<std::shared_ptr<Falling>> falling_;  // calls that put it to sleep
  std::function<bool()> before_work_;
  std::mutex alone_;  // of calls without a thread
};

}  // namespace trl::serve
