#include "serve/engine/forms.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "base/threads/thread_pool.h"

namespace trl::serve {

namespace {

constexpr std::chrono::seconds kCompiling{10};  // of one form

}  // namespace

// Whether a form is compiled on: not for a client that has gone, nor for too long.
struct Forms::Going {
  const Job& job;
  const std::atomic<bool>& stops;
  const std::chrono::steady_clock::time_point end = std::chrono::steady_clock::now() + kCompiling;
  bool late() const { return std::chrono::steady_clock::now() > end; }
  static int32_t goes_on(void* any) {
    const Going& self = *static_cast<const Going*>(any);
    return !self.stops && !self.job.cancelled && !self.job.ended && !self.late() ? 1 : 0;
  }
};

void Forms::start(std::function<void()> begin) {
  stops_ = false;
  thread_ = base::quiet_thread("trl-serve-form", [this, begin = std::move(begin)] {
    begin();
    work();
  });
}

void Forms::stop() {
  {
    const std::lock_guard lock(mutex_);
    stops_ = true;
    waiting_.clear();
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Forms::submit(const std::shared_ptr<Job>& job, const trl_generator* generator, Worker& worker) {
  const Waiting of{job, generator, &worker};
  try {
    job->constraint = constraint(of, nullptr);
  } catch (const Error& error) {
    throw in_words_of(job->form, error);
  }
  job->ready = job->constraint != nullptr;
  worker.submit(job);
  if (job->ready) return;
  try {
    const std::lock_guard lock(mutex_);
    if (!stops_) waiting_.push_back(of);
  } catch (...) {
    job->refused = no_memory();
    return worker.form_done(*job);
  }
  wake_.notify_all();
}

void Forms::work() {
  for (;;) {
    const Waiting of = next();
    if (of.job == nullptr) return;
    compile(of);
  }
}

// Returns the one that comes next, by turns of peers; without a job when the thread ends.
Forms::Waiting Forms::next() {
  std::unique_lock lock(mutex_);
  wake_.wait(lock, [this] { return stops_ || !waiting_.empty(); });
  if (stops_) return {};
  const auto other =
      std::ranges::find_if(waiting_, [this](const Waiting& one) { return hash_of(one) != last_peer_; });
  const auto place = other == waiting_.end() ? waiting_.begin() : other;
  Waiting of = std::move(*place);
  waiting_.erase(place);
  last_peer_ = hash_of(of);
  return of;
}

size_t Forms::hash_of(const Waiting& of) { return std::hash<std::string_view>()(of.job->peer); }

void Forms::compile(const Waiting& of) noexcept {
  Job& job = *of.job;
  try {
    job.refused = refusal_of_form(of);
  } catch (...) {
    job.refused = no_memory();
  }
  of.worker->form_done(job);
}

// Gives a job the constraint of its form, or returns why it gets none.
std::optional<Refusal> Forms::refusal_of_form(const Waiting& of) {
  Going going{*of.job, stops_};
  try {
    of.job->constraint = constraint(of, &going);
    return std::nullopt;
  } catch (const Error& error) {
    if (error.status() != Status::cancelled) return in_words_of(of.job->form, error);
  }
  if (!going.late()) return stopping();
  const std::string field = of.job->form ? of.job->form->field : "generate.regex";
  return Refusal(
      400,
      fmt::format("{}: it takes more than {} s to compile; give a simpler one", field, kCompiling.count()),
      field.substr(0, field.find('.')));
}

// going: null: only a constraint that is known already.
std::shared_ptr<void> Forms::constraint(const Waiting& of, Going* going) {
  void* made = nullptr;
  ErrorHandle error;
  check(table_.constrain(of.generator, of.job->options->get(), going == nullptr ? nullptr : Going::goes_on,
                         going, &made, error.out()),
        error);
  if (made == nullptr) return nullptr;
  return {made, table_.release_constraint};
}

}  // namespace trl::serve
