#include "serve/engine/worker.h"

#include <algorithm>
#include <future>

#include "base/json/json.h"
#include "base/text/number.h"
#include "base/threads/thread_pool.h"

namespace trl::serve {

namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds kHeld{20};
constexpr std::chrono::milliseconds kBusy{2};  // until a call that found the model in use is repeated

double seconds(Clock::duration time) { return std::chrono::duration<double>(time).count(); }

int64_t tokens_of(const Job& job) {
  int64_t tokens = 0;
  for (const auto& prompt : job.prompts) tokens += static_cast<int64_t>(prompt.size());
  return tokens;
}

// Returns a number of a completion's JSON; -1: it has none of that name. Quotes of a text are escaped.
int64_t integer_in(std::string_view json, std::string_view quoted_name) {
  const size_t at = json.find(quoted_name);
  if (at == json.npos) return -1;
  const std::string_view number = json.substr(at + quoted_name.size() + 1);
  return base::parse_int64(number.substr(0, number.find_first_of(",}"))).value_or(-1);
}

size_t prompts_left(const Job& job) { return job.prompts.size() - job.next_prompt; }

// Throws what another thread has thrown, as a copy: no object of an exception belongs to two threads.
using Thrown = std::function<void()>;

Thrown copy_of(const std::exception_ptr& why) {
  try {
    std::rethrow_exception(why);
  } catch (const Refusal& refusal) {
    return [refusal] { throw refusal; };
  } catch (const Error& error) {
    return [error] { throw error; };
  } catch (...) {
    return [why] { std::rethrow_exception(why); };
  }
}

Refusal stopping() noexcept {
  return refused(503, "the server is stopping; send the request to another one");
}

}  // namespace

std::unique_ptr<ConfigHandle> job_options(const std::vector<std::pair<std::string, std::string>>& values) {
  auto config = std::make_unique<ConfigHandle>();
  ErrorHandle error;
  check(trl_config_create(config->out(), error.out()), error);
  for (const auto& [key, value] : values)
    check(trl_config_set(config->get(), key.c_str(), value.c_str(), error.out()), error);
  return config;
}

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
    const int64_t tokens = tokens_of(*job);
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

// Something to do between two steps: whoever waits is answered once, whatever becomes of the thread.
struct Worker::Command {
  Command(Body what, Ran tell) : body(std::move(what)), ran(std::move(tell)) {}
  ~Command() { answer(ran ? std::make_exception_ptr(stopping()) : nullptr); }
  Command(const Command&) = delete;
  Command& operator=(const Command&) = delete;
  void answer(const std::exception_ptr& why) noexcept {
    const Ran tell = std::exchange(ran, nullptr);
    try {
      if (tell) tell(why);
    } catch (...) {  // no memory: whoever waits learns that nobody tells
    }
  }
  const Body body;
  Ran ran;
};

void Worker::between_steps(Body body, Ran ran) {
  const auto command = std::make_shared<Command>(std::move(body), std::move(ran));
  {
    const std::lock_guard lock(mutex_);
    if (has_thread_) {
      if (stops_) return;  // which answers
      if (!failure_.empty()) return command->answer(std::make_exception_ptr(refused(503, failure_)));
      commands_.push_back([this, command] { try_command(command); });
      wake_.notify_all();
      return;
    }
  }
  const std::lock_guard alone(alone_);
  try {
    while (!command->body(generator_)) std::this_thread::sleep_for(kBusy);
    if (before_work_) before_work_();
  } catch (...) {
    return command->answer(std::current_exception());
  }
  command->answer(nullptr);
}

void Worker::try_command(const std::shared_ptr<Command>& command) noexcept {
  try {
    if (command->body(generator_)) return command->answer(nullptr);
    std::this_thread::sleep_for(kBusy);
    const std::lock_guard lock(mutex_);
    commands_.push_back([this, command] { try_command(command); });
  } catch (...) {
    command->answer(std::current_exception());
  }
}

void Worker::between_steps(const std::function<void(trl_generator*)>& body) {
  auto done = std::make_shared<std::promise<Thrown>>();
  std::future<Thrown> end = done->get_future();
  between_steps(
      [&](trl_generator* generator) {
        body(generator);
        return true;
      },
      [done](const std::exception_ptr& why) { done->set_value(why ? copy_of(why) : Thrown()); });
  if (const Thrown thrown = end.get()) thrown();
}

Counters Worker::counters() const {
  const std::lock_guard lock(mutex_);
  Counters now = counters_;
  for (const auto& job : jobs_) {
    const size_t left = prompts_left(*job);
    now.waiting += static_cast<int64_t>(left) * job->n;
    if (job->adapter == nullptr) continue;
    if (left > 0) now.waiting_adapters.insert(job->adapter->name);
    if (left < job->prompts.size()) now.running_adapters.insert(job->adapter->name);
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

// Ends jobs that no client waits for any more, those whose form is refused, and those whose time is over.
void Worker::drop_lost(const std::vector<std::shared_ptr<Job>>& jobs) {
  const auto now = Clock::now();
  for (const std::shared_ptr<Job>& job : jobs) {
    if (job->ended) continue;
    if (job->cancelled) {
      cancel_completions(*job, nullptr);
      remove(*job);
    } else if (job->ready && job->refused) {
      end_job(*job, *job->refused);
    } else if (seconds(now - job->came) > options_.request_timeout) {
      abort_job(job, {503, "the request has waited too long (serve.request_timeout); try again later"});
    }
  }
}

// Ends a job with the completions as they are; one with prompts that have not begun is refused.
void Worker::abort_job(const std::shared_ptr<Job>& job, const Refusal& refusal) {
  if (prompts_left(*job) > 0)
    end_job(*job, refusal);
  else
    cancel_completions(*job, &entries_[job.get()].parts);
}

// Returns the job whose prompt comes next: of the peer, and then the job, with the fewest completions that
// run; the older one of equals.
std::shared_ptr<Job> Worker::next_job(const std::vector<std::shared_ptr<Job>>& jobs) {
  std::map<std::string_view, size_t> of_peer;
  for (const auto& [number, running] : running_) ++of_peer[running.job->peer];
  std::shared_ptr<Job> best;
  std::pair<size_t, size_t> least;
  for (const std::shared_ptr<Job>& job : jobs) {
    const auto found = entries_.find(job.get());
    const bool known = found != entries_.end();
    if (job->cancelled || job->ended || !job->ready || prompts_left(*job) == 0) continue;
    const std::pair<size_t, size_t> load{of_peer[job->peer], known ? found->second.running : 0};
    if (best && load >= least) continue;
    best = job;
    least = load;
  }
  return best;
}

void Worker::take_in(const std::vector<std::shared_ptr<Job>>& jobs) {
  const auto most = static_cast<size_t>(options_.max_num_seqs);
  while (!busy_) {
    if (running_.size() >= most) return;
    const std::shared_ptr<Job> job = next_job(jobs);
    if (!job) return;
    const bool fits = running_.size() + static_cast<size_t>(job->n) <= most || running_.empty();
    if (!fits) return;  // so that many small ones do not keep it out
    try {
      add_prompt(job);
    } catch (...) {
      if (!is_out_of_memory()) throw;
      end_job(*job, no_memory());
    }
  }
}

void Worker::add_prompt(const std::shared_ptr<Job>& job) {
  Entry& entry = entries_[job.get()];
  const std::vector<int32_t>& ids = job->prompts[job->next_prompt];
  const auto number = static_cast<int64_t>(job->next_prompt.load());
  std::map<size_t, Running> places;  // made first: afterwards nothing may fail
  for (int64_t i = 0; i < job->n; ++i) {
    Running& running = places[static_cast<size_t>(i)];
    running.job = job;
    running.completion = static_cast<size_t>(number * job->n + i);
    running.began = Clock::now();
    running.last = job->came;
  }
  ErrorHandle error;
  size_t first = 0;
  trl_status status = trl_config_set(job->options->get(), "generate.stream",
                                     std::to_string(job->stream + number * job->n).c_str(), error.out());
  if (status == TRL_OK)
    status = trl_generator_add(generator_, nullptr, 0, ids.data(), ids.size(), job->options->get(), &first,
                               error.out());
  if (status == TRL_E_BUSY || status == TRL_E_CANCELLED) {
    wait_for_model(status);
    return;
  }
  if (status != TRL_OK) {
    Refusal refusal = refusal_of(error.get());
    if (job->form) refusal = in_words_of(*job->form, refusal);
    if (refusal.status == 400 && refusal.param.empty()) refusal.param = "prompt";
    end_job(*job, refusal);
    return;
  }
  if (job->next_prompt++ == 0) tell_began(*job, first);
  {
    const std::lock_guard lock(mutex_);
    counters_.queued.add(seconds(Clock::now() - job->came), job->n);
    counters_.prompt_tokens += static_cast<int64_t>(ids.size());
    counters_.prompt_size.add(static_cast<double>(ids.size()));
    counters_.max_tokens.add(static_cast<double>(job->max_tokens));
    counters_.completions.add(static_cast<double>(job->asked));
  }
  while (!places.empty()) {
    auto place = places.extract(places.begin());
    place.key() += first;
    running_.insert(std::move(place));
    ++entry.running;
  }
}

void Worker::tell_began(const Job& job, size_t completion) noexcept {
  try {
    if (job.began) job.began(table_.version_of(generator_, completion));
  } catch (...) {  // no memory: the answer does not tell it
  }
}

// Waits a little for a call of the host that uses the model. Throws if the process ends.
void Worker::wait_for_model(trl_status status) {
  if (status == TRL_E_CANCELLED && table_.ending() != 0) throw stopping();
  busy_ = true;
  std::this_thread::sleep_for(kBusy);
}

int32_t Worker::on_token(void* any, size_t number, int32_t id, const char* text, size_t size,
                         double) noexcept {
  Worker& worker = *static_cast<Worker*>(any);
  const auto found = worker.running_.find(number);
  if (found == worker.running_.end()) return 1;
  Running& running = found->second;
  try {
    ++running.tokens;
    running.grew = true;
    running.may_be_over = running.tokens >= running.job->max_tokens || worker.ends_.contains(id);
    if (!running.job->streams || running.job->logprobs) return 0;
    running.part.text.append(text, size);
    running.part.ids.push_back(id);
    return 0;
  } catch (...) {
    running.job->starved = true;
    return 1;
  }
}

void Worker::step() {
  if (running_.empty() || busy_) return;
  ErrorHandle error;
  const trl_status status = trl_generator_step(generator_, on_token, this, error.out());
  if (status >= 0) return;
  if (status == TRL_E_BUSY || status == TRL_E_CANCELLED) return wait_for_model(status);
  fail_all(refusal_of(error.get()));
}

// Looks at the completions that may be over, and notes times.
void Worker::collect() {
  if (busy_) return;
  const auto now = Clock::now();
  int64_t tokens = 0;
  std::vector<std::pair<double, bool>> times;
  std::vector<size_t> over;
  for (auto& [number, running] : running_) {
    if (running.grew) {
      const bool first = running.counted == 0;
      tokens += running.tokens - std::exchange(running.counted, running.tokens);
      times.emplace_back(seconds(now - running.last), first);
      running.last = now;
      if (first) running.first = now;
    }
    const bool tells = running.grew && running.job->streams && running.job->logprobs;
    const bool may_take = !running.job->starved && (!running.grew || running.may_be_over || tells);
    if (may_take && take_or_starve(number, running)) over.push_back(number);
    running.grew = running.may_be_over = false;
    running.part.completion = running.completion;
    if (!running.part.over && running.part.ids.empty() && running.part.json.empty()) continue;
    entries_[running.job.get()].parts.push_back(std::exchange(running.part, {}));
  }
  for (const size_t number : over) {
    --entries_[running_[number].job.get()].running;
    running_.erase(number);
  }
  end_starved();
  const std::lock_guard lock(mutex_);
  counters_.generation_tokens += tokens;
  if (tokens > 0) counters_.step_tokens.add(static_cast<double>(tokens));
  for (const auto& [time, first] : times)
    first ? counters_.first_token.add(time) : counters_.between_tokens.add(time);
}

bool Worker::take_or_starve(size_t number, Running& running) {
  try {
    return take(number, running);
  } catch (...) {
    if (!is_out_of_memory()) throw;
    running.job->starved = true;
    return false;
  }
}

// Takes a completion as it is; returns whether it is over.
bool Worker::take(size_t number, Running& running) {
  ErrorHandle error;
  CompletionsHandle completions;
  const trl_status status = trl_generator_take(generator_, number, 1, completions.out(), error.out());
  if (status == TRL_E_BUSY) return false;
  check(status, error);
  const char* const reason = trl_completions_finish_reason(completions.get(), 0);
  if (reason == nullptr && (!running.job->streams || !running.job->logprobs)) return false;
  running.part.json = trl_completions_json(completions.get(), 0, nullptr);
  if (reason == nullptr) return false;
  running.part.over = true;
  size_t ids = 0;
  const int32_t* const all = trl_completions_tokens(completions.get(), 0, &ids);
  if (std::string_view(reason) == "stop" && ids > 0) ends_.insert(all[ids - 1]);
  count(running, reason);
  return true;
}

// Counts a completion that is over.
void Worker::count(const Running& running, const char* reason) {
  const Job& job = *running.job;
  const int64_t version = integer_in(running.part.json, "\"last_version\"");
  const int64_t cached = integer_in(running.part.json, "\"cached_tokens\"");
  const auto now = Clock::now();
  const auto n = static_cast<size_t>(job.n);
  const std::lock_guard lock(mutex_);
  ++counters_.ended[reason];
  counters_.trained_version = std::max(counters_.trained_version, version);
  if (cached >= 0 && running.completion % n == 0) {  // a prompt is looked for once
    counters_.prefix_queries += static_cast<int64_t>(job.prompts[running.completion / n].size());
    counters_.prefix_hits += cached;
  }
  counters_.generation_size.add(static_cast<double>(running.tokens));
  counters_.whole.add(seconds(now - job.came));
  counters_.computed.add(seconds(now - running.began));
  if (running.counted == 0) return;
  counters_.prefill.add(seconds(running.first - running.began));
  counters_.decode.add(seconds(running.last - running.first));
  if (running.tokens > 1)
    counters_.mean_between_tokens.add(seconds(running.last - running.first) /
                                      static_cast<double>(running.tokens - 1));
}

// Gives each job what it has got, and ends those that have all.
void Worker::give() {
  std::vector<std::shared_ptr<Job>> over;
  {
    const std::lock_guard lock(mutex_);
    for (const std::shared_ptr<Job>& job : jobs_)
      if (entries_.contains(job.get())) over.push_back(job);
  }
  for (const std::shared_ptr<Job>& job : over) {
    Entry& entry = entries_[job.get()];
    if (!entry.parts.empty()) job->sink->got(std::exchange(entry.parts, {}));
    if (entry.running > 0 || prompts_left(*job) > 0) continue;
    job->sink->over();
    remove(*job);
  }
}

// Cancels what runs of a job. parts: gets the completions as they are; null: nobody wants them.
void Worker::cancel_completions(const Job& job, std::vector<Part>* parts) noexcept {
  for (auto place = running_.begin(); place != running_.end();) {
    auto& [number, running] = *place;
    if (running.job.get() != &job) {
      ++place;
      continue;
    }
    ErrorHandle error;
    trl_generator_cancel(generator_, number, 1, error.out());
    try {
      if (take(number, running) && parts != nullptr) {
        running.part.completion = running.completion;
        parts->push_back(std::move(running.part));
      }
    } catch (...) {  // the library does not give it: then nobody gets it
    }
    --entries_[running.job.get()].running;
    place = running_.erase(place);
  }
}

void Worker::end_job(Job& job, const Refusal& refusal) noexcept {
  cancel_completions(job, nullptr);
  try {
    job.sink->failed(refusal);
  } catch (...) {  // no memory for a copy
    job.sink->failed(no_memory());
  }
  remove(job);
}

// Ends the jobs whose completions found no memory.
void Worker::end_starved() noexcept {
  while (const std::shared_ptr<Job> job = first_job([](const Job& one) { return one.starved; }))
    end_job(*job, no_memory());
}

void Worker::remove(Job& job) noexcept {
  job.ended = true;
  entries_.erase(&job);
  const std::lock_guard lock(mutex_);
  queued_tokens_ -= tokens_of(job);
  std::erase_if(jobs_, [&](const auto& other) { return other.get() == &job; });
}

template <class Wanted>
std::shared_ptr<Job> Worker::first_job(const Wanted& wanted) const noexcept {
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find_if(jobs_, [&](const auto& job) { return wanted(*job); });
  return found == jobs_.end() ? nullptr : *found;
}

void Worker::fail_all(const Refusal& refusal) noexcept {
  while (const std::shared_ptr<Job> job = first_job([](const Job&) { return true; })) end_job(*job, refusal);
}

}  // namespace trl::serve
