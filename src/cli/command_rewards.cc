#include "cli/command_rewards.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <cmath>
#include <deque>
#include <limits>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <thread>
#include <utility>

#include "cli/child.h"
#include "cli/json_text.h"
#include "cli/progress.h"
#include "config/online/reward_numbers.h"
#include "reward/command_entry.h"

namespace trl::cli {

namespace {

using Json = nlohmann::ordered_json;

Json list_of(const Config& config, const char* key) {
  const std::string entries = get(config, key);
  return entries.empty() ? Json::array() : Json::parse(entries);
}

Json row_of(const trl_rollout* rollout, size_t index) {
  Error error;
  const char* text = nullptr;
  check(trl_rollout_get(rollout, index, &text, error.out()), error);
  return Json::parse(text);
}

// Returns what the program is asked, an object of lists by completion.
Json request_of(const trl_rollout* rollout) {
  Json request, columns = Json::object();
  const size_t count = trl_rollout_count(rollout);
  for (size_t i = 0; i < count; ++i) {
    const Json row = row_of(rollout, i);
    if (i == 0) request = {{"mode", row["mode"]}, {"step", row["step"]}};
    request["prompts"].push_back(row["prompt"]);
    request["completions"].push_back(row["completion"]);
    request["completion_ids"].push_back(row["completion_ids"]);
    if (row.contains("other_completion")) {  // of a pair to judge
      request["other_completions"].push_back(row["other_completion"]);
      request["other_completion_ids"].push_back(row["other_completion_ids"]);
    }
    for (const auto& [name, value] : row["columns"].items()) {
      if (!columns.contains(name)) columns[name] = std::vector<Json>(count);
      columns[name][i] = value;
    }
  }
  request["columns"] = std::move(columns);
  return request;
}

template <class... Args>
[[noreturn]] void refuse(fmt::format_string<Args...> text, Args&&... args) {
  throw std::runtime_error(fmt::format(text, std::forward<Args>(args)...));
}

// Returns the beginning of a value of an answer, for a message.
std::string shown(const Json& value) {
  constexpr size_t kMost = 200;
  std::string text = value.dump();
  if (text.size() <= kMost) return text;
  size_t end = kMost;
  while ((text[end] & 0xC0) == 0x80) --end;  // within a character
  return text.replace(end, text.npos, "...");
}

// Refuses a member of an answer that nothing reads.
void refuse_others(const Json& answer) {
  if (!answer.is_object()) return;
  for (const auto& [name, value] : answer.items())
    if (name != "rewards" && name != "metrics")
      refuse(
          "it has a member {}, and an object has rewards, a list, and may have metrics, an object of numbers "
          "by name; or it has error, a text",
          shown(name));
}

// Returns the list of an answer: the answer itself, or its member rewards.
Json rewards_of(const Json& answer, size_t count) {
  if (answer.is_object() && answer.contains("error")) refuse("it failed: {}", shown(answer["error"]));
  refuse_others(answer);
  const Json rewards = answer.is_object() ? answer.value("rewards", Json()) : answer;
  if (!rewards.is_array())
    refuse("it is not a list of rewards, nor an object with rewards, a list, or with error, a text");
  if (rewards.size() != count)
    refuse("it has {} rewards for {} completions: give one for each, null for none", rewards.size(), count);
  return rewards;
}

void set_reward(trl_rollout* rollout, size_t index, double reward) {
  Error error;
  check(trl_rollout_set_reward(rollout, index, reward, error.out()), error);
}

void log_metrics(trl_rollout* rollout, const Json& answer) {
  if (!answer.is_object() || !answer.contains("metrics")) return;
  if (!answer["metrics"].is_object()) refuse("metrics: give an object of numbers");
  for (const auto& [name, value] : answer["metrics"].items()) {
    if (!value.is_number()) refuse("metrics: {}: {} is not a number", name, shown(value));
    Error error;
    check(trl_rollout_log(rollout, name.c_str(), value.get<double>(), error.out()), error);
  }
}

}  // namespace

// A program, which answers on a thread, one question after the other: the trainer waits as long as
// reward_timeout says.
class CommandReward {
 public:
  CommandReward(std::string line, bool forgives, bool by_group)
      : line_(std::move(line)), forgives_(forgives), by_group_(by_group) {}
  ~CommandReward() { give_up(); }

  static int32_t call(void* self, trl_rollout* rollout) {
    static_cast<CommandReward*>(self)->begin(rollout);
    return TRL_LATER;
  }

 private:
  struct Question {
    trl_rollout* rollout;
    std::string request;
  };

  // Another question means that the trainer has waited long enough for the one before. With reward_by_group,
  // groups of a generation are asked for while others wait, and only one of another generation means it.
  void begin(trl_rollout* rollout) {
    const Json request = request_of(rollout);
    const auto generation = row_of(rollout, 0)["generation"].get<int64_t>();
    if (!by_group_ || generation != generation_) give_up();
    generation_ = generation;
    {
      const std::lock_guard lock(mutex_);
      questions_.push_back({rollout, request.dump()});
      if (std::exchange(answers_, true)) return;
    }
    if (thread_.joinable()) thread_.join();
    thread_ = std::thread([this] { answer_all(); });
  }

  // Stops a program that did not answer in time: its answer would be taken for the next one.
  void give_up() {
    std::deque<Question> dropped;
    {
      const std::lock_guard lock(mutex_);
      dropped.swap(questions_);
      if (asks_) {
        given_up_ = true;
        if (child_) child_->stop();
      }
    }
    if (thread_.joinable()) thread_.join();
    failed_ = failed_ || given_up_;
    given_up_ = false;
    for (const Question& question : dropped)
      finish(question.rollout, fmt::format("command '{}' was not asked", line_));
  }

  void answer_all() {
    for (;;) {
      Question question;
      {
        const std::lock_guard lock(mutex_);
        if (questions_.empty()) {
          answers_ = false;
          return;
        }
        question = std::move(questions_.front());
        questions_.pop_front();
        asks_ = true;
      }
      answer(question);
    }
  }

  Child& running() {
    const std::lock_guard lock(mutex_);
    if (given_up_) refuse("it was not asked");
    if (failed_) child_.reset();
    failed_ = false;
    if (!child_) {
      child_.emplace(line_);
      answered_ = 0;
    }
    return *child_;
  }

  void answer(const Question& question) {
    std::string failure;
    bool answered = false;
    try {
      const std::string line = running().ask(question.request);
      answered = true;
      ++answered_;
      take(question.rollout, line);
    } catch (const std::exception& error) {
      failed_ = !answered;
      failure = fmt::format("command '{}'{}: {}", line_,
                            answered ? fmt::format(", line {} of its output", answered_) : "", error.what());
    }
    {
      const std::lock_guard lock(mutex_);  // the next generation may begin as soon as this one is finished
      asks_ = false;
    }
    finish(question.rollout, failure);
  }

  void take(trl_rollout* rollout, const std::string& line) const {
    const Json answer = parse_text(line);
    if (answer.is_discarded())
      refuse("it is not JSON, or nested deeper than {}: {} (none is null)", kMostNesting, line.substr(0, 60));
    const Json rewards = rewards_of(answer, trl_rollout_count(rollout));
    constexpr double kMost = std::numeric_limits<float>::max();
    for (size_t i = 0; i < rewards.size(); ++i) {
      const Json& reward = rewards[i];
      const bool is_error = reward.is_object() && reward.contains("error");
      const bool holds = reward == true;  // as in TRL, a truth value is 0 or 1
      if (!is_error && !reward.is_null() && !reward.is_number() && !reward.is_boolean())
        refuse("reward {}: {} is not a number, true, false, null, or an object with error", i, shown(reward));
      if (reward.is_number() && std::abs(reward.get<double>()) > kMost)
        refuse("reward {}: {} is beyond float32: give a number up to 3.4e38, or null for none", i,
               shown(reward));
      if (is_error && !forgives_) refuse("reward {}: {}", i, shown(reward["error"]));
      if (is_error) warn(i, shown(reward["error"]));
      set_reward(rollout, i,
                 reward.is_number()    ? reward.get<double>()
                 : reward.is_boolean() ? holds
                                       : std::nan(""));
    }
    log_metrics(rollout, answer);
  }

  void warn(size_t index, const std::string& why) const {
    clear_line();
    spdlog::warn("on_reward_error: none: command '{}', line {} of its output: reward {} is none: {}", line_,
                 answered_, index, why);
  }

  static void finish(trl_rollout* rollout, const std::string& failure) {
    trl_rollout_finish(rollout, failure.empty() ? nullptr : failure.c_str(), nullptr);
  }

  const std::string line_;
  const bool forgives_;     // on_reward_error: none
  const bool by_group_;     // reward_by_group
  int64_t generation_ = 0;  // of the last question
  std::thread thread_;
  std::mutex mutex_;                // of the next five
  std::deque<Question> questions_;  // that the program was not asked yet
  bool answers_ = false;            // the thread is at work
  bool asks_ = false;               // it has a question that is not finished
  bool given_up_ = false;           // no answer is wanted any more
  std::optional<Child> child_;
  bool failed_ = false;  // the program did not answer; the next question starts it anew
  int64_t answered_ = 0;
};

void check_rewards(const Config& config, bool rewarded) {
  const size_t rewards =
      list_of(config, "reward_funcs").size() + (get(config, "reward_model_name_or_path").empty() ? 0 : 1);
  if (!rewarded || !get(config, "replay_rollouts").empty()) return;
  if (rewards == 0) {
    if (!get(config, "judge").empty()) return;  // the run says that no reward has this name
    throw Failure(kUsage, std::string(config::kNoReward));
  }
  const std::string wrong =
      config::wrong_weights(std::ssize(list_of(config, "reward_weights")), static_cast<int64_t>(rewards));
  if (!wrong.empty()) throw Failure(kUsage, wrong);
}

CommandRewards::CommandRewards(const Config& config, const Trainer& trainer) {
  const bool forgives = get(config, "on_reward_error") == "none";
  const bool by_group = get(config, "reward_by_group") == "true";
  for (const Json& entry : list_of(config, "reward_funcs")) {
    const auto command = reward::command_entry(entry.get<std::string>());
    if (!command) continue;
    rewards_.push_back(std::make_unique<CommandReward>(command->line, forgives, by_group));
    Error error;
    check(trl_trainer_add_reward(trainer.get(), command->name.c_str(), CommandReward::call,
                                 rewards_.back().get(), nullptr, error.out()),
          error);
  }
}

CommandRewards::~CommandRewards() = default;

}  // namespace trl::cli
