// How jobs begin and end on the thread of a model.
#include <algorithm>

#include "serve/engine/worker.h"

namespace trl::serve {

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
    } else if (as_seconds(now - job->came) > options_.request_timeout) {
      abort_job(job, {503, "the request has waited too long (serve.request_timeout); try again later"});
    }
  }
}

// Ends a job with the completions as they are; one with some that have not begun is refused.
void Worker::abort_job(const std::shared_ptr<Job>& job, const Refusal& refusal) {
  if (completions_left(*job) > 0)
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
    if (job->cancelled || job->ended || !job->ready || completions_left(*job) == 0) continue;
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
    const auto n = static_cast<size_t>(job->n);
    const size_t wanted = n - job->next % n, count = std::min(wanted, most - running_.size());
    // Completions of a prompt begin together if they can, and many small jobs do not keep them out.
    if (count < wanted && n <= most) return;
    try {
      add_completions(job, count);
    } catch (...) {
      if (!is_out_of_memory()) throw;
      end_job(*job, no_memory());
    }
  }
}

// Begins the next completions of a job, which are of one prompt.
void Worker::add_completions(const std::shared_ptr<Job>& job, size_t count) {
  Entry& entry = entries_[job.get()];
  const size_t next = job->next, n = static_cast<size_t>(job->n);
  const std::vector<int32_t>& ids = job->prompts[next / n];
  std::map<size_t, Running> places;  // made first: afterwards nothing may fail
  for (size_t i = 0; i < count; ++i) {
    Running& running = places[i];
    running.job = job;
    running.completion = next + i;
    running.began = Clock::now();
    running.last = job->came;
  }
  ErrorHandle error;
  size_t first = 0;
  const auto set = [&](const char* key, int64_t value) {
    return trl_config_set(job->options->get(), key, std::to_string(value).c_str(), error.out());
  };
  trl_status status = set("generate.stream", job->stream + static_cast<int64_t>(next));
  if (status == TRL_OK) status = set("generate.num_return_sequences", static_cast<int64_t>(count));
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
  job->next = next + count;
  if (next == 0) tell_began(*job, first);
  {
    const std::lock_guard lock(mutex_);
    counters_.queued.add(as_seconds(Clock::now() - job->came), static_cast<int64_t>(count));
  }
  if (next % n == 0) {
    const std::lock_guard lock(mutex_);
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
  queued_tokens_ -= prompt_tokens(job);
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
