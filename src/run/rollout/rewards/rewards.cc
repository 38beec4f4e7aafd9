#include "run/rollout/rewards/rewards.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "run/rollout/json_number.h"
#include "run/rollout/rewards/awaited_reward.h"
#include "run/rollout/rewards/judge.h"
#include "run/rollout/rewards/reward_model.h"

namespace trl::run {

namespace {

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

}  // namespace

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
  if (awaited(**known) == nullptr || awaited(*function) != nullptr) refuse_second_reward(function->name());
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
