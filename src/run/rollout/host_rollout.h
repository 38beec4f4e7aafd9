// The rows of a generation as a host sees them, and its answers: completions that it gives, or rewards.
#pragma once
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/json/json.h"
#include "engine/rollout.h"
#include "reward/batch.h"

namespace trl::run {

struct HostRow {
  int64_t row = 0;     // in the dataset
  base::Json prompt;   // a text, or a list of messages
  base::Json columns;  // the other columns of the row, an object
  std::vector<int32_t> prompt_ids;
  // For rewards: the completion. Of a host that writes completions: its answer.
  std::optional<engine::Completion> completion = {};
  base::Json text = {};  // the completion as text, or as a list of messages
  std::optional<double> reward = {};
  base::Json details = base::Json::object();  // more that describes it
  // Values that the host sets: columns for records of completions, or its answer to a question.
  base::Json extras = base::Json::object();
};

// Describes a prompt. all: the columns of its row.
HostRow prompt_row(const engine::PromptRows& prompts, size_t row, const base::Json& all);

// One call of a host's function. Its answers may come later and from any thread, until finish().
class HostRollout {
 public:
  // mode: train or eval. step: updates done before. answer: the only value that a row may have; empty: any.
  HostRollout(std::string mode, int64_t step, std::vector<HostRow> rows, std::string answer = "")
      : mode_(std::move(mode)), answer_(std::move(answer)), step_(step), rows_(std::move(rows)) {}
  size_t size() const { return rows_.size(); }
  base::Json describe(size_t index) const;
  // Throw Error(invalid_argument) for a row that there is not, or whose answer was given.
  void set_reward(size_t index, double reward);
  void set_completion(size_t index, engine::Completion completion, const base::Json& columns);
  void log(std::string name, double value);
  void set_value(size_t index, const std::string& name, base::Json value);
  // Ends it; failure: it failed, and the reason. Throws Error(invalid_argument) the second time.
  void finish(std::optional<std::string> failure);
  void close();  // ends it unless finish() has
  bool finished() const;
  // Waits for the end, which must come within that many seconds. Throws Error(callback) for a failure, and
  // for an end that came later or is still to come; which: the host's function, for messages.
  void wait(const std::string& which, std::optional<double> seconds);
  // All that was set. Call when it is finished.
  const std::vector<HostRow>& rows() const { return rows_; }
  const std::vector<std::pair<std::string, double>>& metrics() const { return metrics_; }
  reward::Columns extras() const;
  // Returns the answer of a row. Throws Error(callback) if there is none.
  const base::Json& needed(size_t index) const;

 private:
  HostRow& row_at(size_t index);
  double age() const;  // in seconds
  void end();

  const std::string mode_, answer_;
  const int64_t step_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  const std::chrono::steady_clock::time_point made_ = std::chrono::steady_clock::now();
  std::vector<HostRow> rows_;
  std::vector<std::pair<std::string, double>> metrics_;
  bool finished_ = false;
  double took_ = 0;  // seconds, once it is finished
  std::optional<std::string> failure_;
};

}  // namespace trl::run
