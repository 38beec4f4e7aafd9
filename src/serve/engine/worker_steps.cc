// What a step of a model has given, and who gets it.
#include <algorithm>

#include "base/json/json.h"
#include "base/text/number.h"
#include "serve/engine/worker.h"

namespace trl::serve {

namespace {

// Returns a number of a completion's JSON; -1: it has none of that name. Quotes of a text are escaped.
int64_t integer_in(std::string_view json, std::string_view quoted_name) {
  const size_t at = json.find(quoted_name);
  if (at == json.npos) return -1;
  const std::string_view number = json.substr(at + quoted_name.size() + 1);
  return base::parse_int64(number.substr(0, number.find_first_of(",}"))).value_or(-1);
}

}  // namespace

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
      times.emplace_back(as_seconds(now - running.last), first);
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
  counters_.whole.add(as_seconds(now - job.came));
  counters_.computed.add(as_seconds(now - running.began));
  if (running.counted == 0) return;
  counters_.prefill.add(as_seconds(running.first - running.began));
  counters_.decode.add(as_seconds(running.last - running.first));
  if (running.tokens > 1)
    counters_.mean_between_tokens.add(as_seconds(running.last - running.first) /
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
    if (entry.running > 0 || completions_left(*job) > 0) continue;
    job->sink->over();
    remove(*job);
  }
}

}  // namespace trl::serve
