// One request to a model: its prompts, how their tokens are chosen, and who gets the completions.
#pragma once
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "serve/api/response_format.h"
#include "serve/handles.h"
#include "serve/weights/adapters.h"

namespace trl::serve {

// A piece of a completion: some tokens, or all of it at its end.
struct Part {
  size_t completion = 0;     // prompt * n + place among the prompt's
  std::string text;          // of streams: new whole characters
  std::vector<int32_t> ids;  // of streams: new tokens
  // As trl_completions_json: of one that is over, and of streams with log-probabilities what is new.
  std::string json;
  bool over = false;
};

// Receives the completions of a job, on the model's thread: must not wait. Without memory for them, its reply
// gives up.
class JobSink {
 public:
  virtual ~JobSink() = default;
  virtual void got(std::vector<Part> parts) noexcept = 0;  // of one step
  virtual void over() noexcept = 0;                        // after the last part
  virtual void failed(Refusal refusal) noexcept = 0;       // instead of over()
};

struct Job {
  std::vector<std::vector<int32_t>> prompts;
  std::unique_ptr<ConfigHandle> options;  // generate.*; the worker sets generate.stream
  int64_t n = 1;                          // completions of each prompt that are computed
  int64_t asked = 1;                      // completions of each prompt that the answer has
  int64_t stream = 0;                     // number of the first completion's draws
  int64_t max_tokens = 0;
  bool streams = false;                           // parts come as they are computed
  bool logprobs = false;                          // with log-probabilities
  std::optional<Form> form;                       // that keeps their texts to it
  std::string peer;                               // whose turn it is
  std::shared_ptr<const AdapterVersion> adapter;  // held so that it stays; null: the model alone
  std::shared_ptr<JobSink> sink;
  // Called on the model's thread when the first prompt begins, with the version of a trainer's adapter that
  // its completions begin with; -1: there is none.
  std::function<void(int64_t trained_version)> began;
  std::chrono::steady_clock::time_point came = std::chrono::steady_clock::now();
  std::atomic<bool> cancelled{false};  // by its client: nobody waits for it
  std::atomic<bool> ended{false};
  std::atomic<size_t> next{0};  // the first completion that has not begun
  // false: it waits for its form to be compiled. Before it is set, the form's constraint, which the library
  // finds while it is held, or why there is none.
  std::atomic<bool> ready{true};
  std::shared_ptr<void> constraint;
  std::optional<Refusal> refused;
  bool starved = false;  // there was no memory for what it got; of the worker's thread
};

// Returns the options as a handle; values: by key, JSON.
std::unique_ptr<ConfigHandle> job_options(const std::vector<std::pair<std::string, std::string>>& values);

int64_t prompt_tokens(const Job& job);
inline size_t completions_of(const Job& job) { return job.prompts.size() * static_cast<size_t>(job.n); }
inline size_t completions_left(const Job& job) { return completions_of(job) - job.next; }

}  // namespace trl::serve
