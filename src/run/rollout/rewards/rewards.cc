#include "run/rollout/rewards/rewards.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "reward/command_entry.h"
#include "reward/named_reward.h"
#include "run/rollout/rewards/judge.h"
#include "run/rollout/rewards/reward_model.h"

namespace trl::run {

namespace {

bool is_conversation(const base::Json& row) {
  const auto prompt = row.find("prompt");
  return prompt != row.end() && prompt->is_array();
}

base::Json columns_of(const base::Json& row) {
  base::Json columns = row;
  for (const char* name : {"prompt", "completion_ids"}) columns.erase(name);
  return columns;
}

const double* find_reward(const ReplayedRow& row, const std::string& name) {
  const auto found = std::ranges::find(row.rewards, name, &std::pair<std::string, double>::first);
  return found == row.rewards.end() ? nullptr : &found->second;
}

bool has_reward(std::span<const ReplayedRow> rows, const std::string& name) {
  return std::ranges::any_of(rows, [&](const ReplayedRow& row) { return find_reward(row, name) != nullptr; });
}

std::vector<double> from_file(std::span<const ReplayedRow> rows, const std::string& name) {
  std::vector<double> column;
  for (const ReplayedRow& row : rows) {
    const double* const value = find_reward(row, name);
    column.push_back(value == nullptr ? std::nan("") : *value);
  }
  return column;
}

// Holds the place of a program's rewards until the host adds them.
class AwaitedReward final : public reward::Reward {
 public:
  AwaitedReward(std::string name, std::string spec) : name_(std::move(name)), spec_(std::move(spec)) {}
  std::string_view name() const override { return name_; }
  reward::Rewards score(const reward::RewardBatch&) override { refuse(); }
  [[noreturn]] void refuse() const {
    fail_key("reward_funcs",
             "reward_funcs: '{}': the trl command runs programs, this library does not: a host adds the "
             "reward {} itself (trl_trainer_add_reward)",
             spec_, name_);
  }

 private:
  const std::string name_, spec_;
};

void check_values(std::span<const double> values, size_t rows, std::string_view name) {
  if (values.size() != rows)
    fail(Status::callback, "the reward {} gave {} values for {} completions", name, values.size(), rows);
  for (size_t row = 0; row < rows; ++row) {
    if (!in_float32(values[row]))
      fail(Status::callback,
           "the reward {} gave {} for completion {} of {}: give a number of float32, or NaN for none", name,
           values[row], row, rows);
  }
}

std::unique_ptr<reward::Reward> reward_of(const std::string& spec) {
  const auto command = reward::command_entry(spec);
  if (!command) return reward::named_reward(spec);
  if (command->line.empty())
    fail_key("reward_funcs", "reward_funcs: '{}': the command is missing: give it, as in command:./score.sh",
             spec);
  return std::make_unique<AwaitedReward>(command->name, spec);
}

const AwaitedReward* awaited(const reward::Reward& function) {
  return dynamic_cast<const AwaitedReward*>(&function);
}

[[noreturn]] void refuse_second(std::string_view name) {
  fail_key("reward_funcs", "reward_funcs: two rewards are called {}: their metrics need different names",
           name);
}

}  // namespace

bool in_float32(double value) { return std::isnan(value) || std::isfinite(static_cast<float>(value)); }

base::Json json_of(double value) { return std::isnan(value) ? base::Json() : base::Json(value); }

void check_reward_options(const config::OnlineArguments& arguments) {
  std::vector<std::string> names;
  if (!arguments.reward_model.empty()) {
    check_reward_model(arguments.reward_model);
    names.push_back(reward_model_name(arguments.reward_model));
  }
  for (const std::string& spec : arguments.reward_funcs) {
    std::string name(reward_of(spec)->name());
    if (std::ranges::find(names, name) != names.end()) refuse_second(name);
    names.push_back(std::move(name));
  }
  if (!arguments.replay_rollouts.empty()) check_replay(arguments.replay_rollouts);
}

Answers::Answers(const reward::Moment& moment, const engine::PromptRows& prompts,
                 std::span<const std::shared_ptr<const base::Json>> rows,
                 std::span<const engine::Completion> completions, const Tokenizer& tokenizer,
                 std::span<const base::Json> conversations)
    : moment_(moment) {
  // Views refer to these, which must not move.
  columns_.reserve(completions.size());
  texts_.reserve(completions.size());
  messages_.reserve(completions.size());
  for (size_t i = 0; i < completions.size(); ++i) {
    if (i == 0 || rows[i] != rows[i - 1]) columns_.push_back(columns_of(*rows[i]));
    texts_.push_back(text_of(tokenizer.get(), completions[i].ids, true));
    reward::Completion& item = items_.emplace_back();
    item.text = texts_.back();
    item.ids = completions[i].ids;
    item.prompt_ids = prompts.ids[i];
    item.row = prompts.row_ids[i];
    item.columns = &columns_.back();
    const auto prompt = rows[i]->find("prompt");
    item.prompt = prompt == rows[i]->end() ? nullptr : &*prompt;
    if (!is_conversation(*rows[i])) continue;
    const base::Json answer = {{"role", "assistant"}, {"content", texts_.back()}};
    messages_.push_back(conversations.empty() ? base::Json::array({answer}) : conversations[i]);
    item.messages = &messages_.back();
  }
}

RewardFunctions::RewardFunctions(Environment& environment, const config::RunOptions& options,
                                 const Replay* replay)
    : arguments_(options.arguments.online), log_(environment.log()) {
  if (replay != nullptr) replayed_ = replay->rewards();
  if (!arguments_.reward_model.empty()) add(open_reward_model(environment, options));
  for (const std::string& spec : arguments_.reward_funcs) add(reward_of(spec));
  given_ = functions_.size();
}

RewardFunctions::~RewardFunctions() = default;

void RewardFunctions::begin(const Answers& answers, std::span<const size_t> rows,
                            std::span<const ReplayedRow> replayed) {
  for (const auto& function : functions_)
    if (!has_reward(replayed, std::string(function->name()))) function->begin(answers.batch(), rows);
}

void RewardFunctions::forget() {
  for (const auto& function : functions_) function->forget();
}

bool RewardFunctions::late() const {
  return arguments_.reward_model.empty() &&
         std::ranges::any_of(functions_, [](const auto& function) { return function->late(); });
}

void RewardFunctions::add(std::unique_ptr<reward::Reward> function) {
  if (function->name() == arguments_.judge && awaited(*function) == nullptr)
    function = judge_of_pairs(std::move(function));
  const auto known = std::ranges::find(functions_, function->name(), &reward::Reward::name);
  if (known == functions_.end()) return functions_.push_back(std::move(function));
  if (awaited(**known) == nullptr || awaited(*function) != nullptr) refuse_second(function->name());
  *known = std::move(function);
}

std::vector<std::string> RewardFunctions::names() const {
  std::vector<std::string> names;
  for (const auto& function : functions_) names.emplace_back(function->name());
  for (const std::string& name : replayed_)
    if (std::ranges::find(names, name) == names.end()) names.push_back(name);
  return names;
}

void RewardFunctions::check() const {
  if (const std::vector<std::string> all = names(); !arguments_.judge.empty()) {
    if (std::ranges::find(all, arguments_.judge) == all.end())
      fail_key("judge",
               "judge: '{}': no reward has this name (there are: {}): give a program of that name in "
               "reward_funcs, as in {}=command:LINE, or a function of the host",
               arguments_.judge, all.empty() ? "none" : fmt::format("{}", fmt::join(all, ", ")),
               arguments_.judge);
    if (all.size() > 1)
      fail_key("judge", "judge: '{}' judges pairs instead of rewards: leave out the others of {}",
               arguments_.judge, fmt::join(all, ", "));
  }
  config::check_rewards(arguments_, std::ssize(names()) - static_cast<int64_t>(given_));
  for (const auto& function : functions_) {
    const AwaitedReward* const missing = awaited(*function);
    if (missing != nullptr && std::ranges::find(replayed_, missing->name()) == replayed_.end())
      missing->refuse();
  }
}

void check_reward_columns(const config::OnlineArguments& arguments, std::span<const std::string> replayed,
                          const data::PromptExample& prompt) {
  const base::Json columns = columns_of(base::Json::parse(prompt.row));
  const reward::Completion empty = {.row = prompt.source_row, .columns = &columns};
  if (arguments.on_reward_error == config::OnRewardError::none) return;
  for (const std::string& spec : arguments.reward_funcs) {
    if (reward::command_entry(spec)) continue;
    const std::unique_ptr<reward::Reward> function = reward::named_reward(spec);
    if (std::ranges::find(replayed, function->name()) == replayed.end()) function->score({{&empty, 1}});
  }
}

// A function that fails ends the run, or with on_reward_error: none scores nothing.
std::vector<double> RewardFunctions::scored(reward::Reward& function, const Answers& answers,
                                            engine::Rewards& out) {
  try {
    std::vector<double> values = function.score(answers.batch());
    check_values(values, answers.size(), function.name());
    for (const auto& [row, why] : function.failures()) take_failure(function, answers, row, why);
    for (auto& metric : function.metrics()) out.metrics.push_back(std::move(metric));
    for (auto& [name, column] : function.extras()) extras_[name] = std::move(column);
    return values;
  } catch (const Error& error) {
    if (error.status() == Status::cancelled) throw;
    if (arguments_.on_reward_error != config::OnRewardError::none)
      throw error.with(fmt::format("{}; on_reward_error: none counts it as none instead", error.message()));
    log_.warning("rewards", "on_reward_error: none: {} counts as none for {} completions: {}",
                 function.name(), answers.size(), error.message());
    return std::vector<double>(answers.size(), std::nan(""));
  }
}

void RewardFunctions::take_failure(const reward::Reward& function, const Answers& answers, size_t row,
                                   const std::string& why) const {
  const Place place = Place::of_row(answers[row].row);
  const std::string text = fmt::format("the reward {} failed for completion {} of {}, {}: {}",
                                       function.name(), row, answers.size(), place, why);
  if (arguments_.on_reward_error != config::OnRewardError::none)
    throw Error(Status::callback, text, {}, 0, place);
  log_.warning("rewards", "on_reward_error: none: {}", text);
}

void RewardFunctions::tell() const {
  for (const auto& function : functions_) {
    const reward::Unread unread = function->unread();
    if (unread.solutions > 0)
      log_.warning("rewards", "{}: {} solutions could not be read: their completions have no reward",
                   function->name(), unread.solutions);
    if (unread.completions > 0)
      log_.warning("rewards",
                   "{}: the answers of {} completions could not be read, and count as wrong unless "
                   "the solution has the same text",
                   function->name(), unread.completions);
  }
}

engine::Rewards RewardFunctions::score(const Answers& answers, std::span<const ReplayedRow> replayed) {
  const size_t rows = answers.size();
  engine::Rewards out;
  extras_.clear();
  out.names = names();
  std::vector<std::vector<double>> columns;
  for (size_t f = 0; f < out.names.size(); ++f) {
    const std::string& name = out.names[f];
    const bool of_file = f >= functions_.size() || has_reward(replayed, name);
    columns.push_back(of_file ? from_file(replayed, name) : scored(*functions_[f], answers, out));
  }
  out.weights = arguments_.reward_weights;
  out.weights.resize(out.names.size(), 1.0);
  for (size_t row = 0; row < rows; ++row)
    for (const std::vector<double>& column : columns) out.values.push_back(column[row]);
  if (!out.names.empty() && std::ranges::all_of(out.values, [](double one) { return std::isnan(one); }))
    log_.warning("rewards", "no completion of this generation has a reward: {} gave none",
                 fmt::join(out.names, ", "));
  return out;
}

}  // namespace trl::run
