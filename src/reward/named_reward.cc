#include "reward/named_reward.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>

#include "base/error.h"
#include "base/text/nearest.h"
#include "base/text/number.h"
#include "reward/built_in.h"
#include "reward/reward_call.h"

namespace trl::reward {

namespace {

// Gives out the arguments of a call by name, and refuses unknown ones.
class Arguments {
 public:
  Arguments(const RewardCall& call, std::vector<std::string_view> names) : call_(call) {
    for (const auto& [name, value] : call.arguments) {
      if (std::ranges::find(names, name) != names.end()) continue;
      if (names.empty()) refuse("{} takes no arguments", call.name);
      refuse("{} has no argument {}; it has {}", call.name, name, base::join(names));
    }
  }

  template <typename... Args>
  [[noreturn]] void refuse(fmt::format_string<Args...> text, Args&&... args) const {
    fail_key("reward_funcs", "reward_funcs: '{}': {}", call_.text,
             fmt::format(text, std::forward<Args>(args)...));
  }

  int64_t integer(std::string_view name, std::optional<int64_t> preset, int64_t least) const {
    const base::Json* value = find(name);
    if (value == nullptr && !preset) refuse("{} is missing: give {}({}=100)", name, call_.name, name);
    if (value == nullptr) return *preset;
    if (!value->is_number_integer() || value->get<int64_t>() < least)
      refuse("{}={} is not accepted; give an integer of at least {}", name, value->dump(), least);
    return value->get<int64_t>();
  }

  double number(std::string_view name, double preset) const {
    const base::Json* value = find(name);
    if (value == nullptr) return preset;
    if (!value->is_number() || !std::isfinite(value->get<double>()))
      refuse("{}={} is not accepted; give a finite number", name, value->dump());
    return value->get<double>();
  }

  std::vector<std::string> texts(std::string_view name, std::string_view preset) const {
    const base::Json* value = find(name);
    std::vector<std::string> out;
    if (value == nullptr || value->is_null()) return {std::string(preset)};
    const bool list = value->is_array() && !value->empty();
    for (const base::Json& item : list ? *value : base::Json::array()) {
      if (!item.is_string() || item.get_ref<const std::string&>().empty()) break;
      out.push_back(item.get<std::string>());
    }
    if (!list || out.size() != value->size())
      refuse("{}={} is not accepted; give a list of texts that are not empty, such as [\"{}\"]", name,
             value->dump(-1, ' ', false, base::Json::error_handler_t::replace), preset);
    return out;
  }

 private:
  const base::Json* find(std::string_view name) const {
    for (const auto& [other, value] : call_.arguments)
      if (other == name) return &value;
    return nullptr;
  }
  const RewardCall& call_;
};

std::unique_ptr<Reward> make_think_format(const RewardCall& call) {
  const Arguments arguments(call, {});
  return think_format_reward();
}

std::unique_ptr<Reward> make_accuracy(const RewardCall& call) {
  const Arguments arguments(call, {});
  return accuracy_reward();
}

std::unique_ptr<Reward> make_reasoning_accuracy(const RewardCall& call) {
  const Arguments arguments(call, {"reasoning_delimiters"});
  return reasoning_accuracy_reward(arguments.texts("reasoning_delimiters", "</think>"));
}

std::unique_ptr<Reward> make_soft_overlong(const RewardCall& call) {
  const Arguments arguments(call, {"max_completion_len", "soft_punish_cache"});
  const int64_t longest = arguments.integer("max_completion_len", 1280, 1);
  const int64_t cache = arguments.integer("soft_punish_cache", 256, 0);
  if (cache > longest)
    arguments.refuse("soft_punish_cache {} is above max_completion_len {}; give at most that", cache,
                     longest);
  return soft_overlong_punishment(longest, cache);
}

std::unique_ptr<Reward> make_repetition_penalty(const RewardCall& call) {
  const Arguments arguments(call, {"ngram_size", "max_penalty"});
  const double penalty = arguments.number("max_penalty", -1);
  if (penalty > 0)
    arguments.refuse("max_penalty={} is not accepted; give a number of at most 0",
                     base::format_double(penalty));
  return repetition_penalty_reward(arguments.integer("ngram_size", 3, 1), penalty);
}

std::unique_ptr<Reward> make_cosine_scaled(const RewardCall& call) {
  const Arguments arguments(
      call, {"max_len", "min_value_wrong", "max_value_wrong", "min_value_correct", "max_value_correct"});
  CosineScale scale;
  scale.max_len = arguments.integer("max_len", std::nullopt, 1);
  scale.min_value_wrong = arguments.number("min_value_wrong", scale.min_value_wrong);
  scale.max_value_wrong = arguments.number("max_value_wrong", scale.max_value_wrong);
  scale.min_value_correct = arguments.number("min_value_correct", scale.min_value_correct);
  scale.max_value_correct = arguments.number("max_value_correct", scale.max_value_correct);
  return cosine_scaled_reward(scale);
}

struct BuiltIn {
  std::string_view name;
  std::unique_ptr<Reward> (*make)(const RewardCall&);
};

constexpr std::array kBuiltIns = {
    BuiltIn{"accuracy_reward", make_accuracy},
    BuiltIn{"get_cosine_scaled_reward", make_cosine_scaled},
    BuiltIn{"get_repetition_penalty_reward", make_repetition_penalty},
    BuiltIn{"get_soft_overlong_punishment", make_soft_overlong},
    BuiltIn{"reasoning_accuracy_reward", make_reasoning_accuracy},
    BuiltIn{"think_format_reward", make_think_format},
};

[[noreturn]] void refuse_name(const RewardCall& call) {
  std::vector<std::string_view> names;
  for (const BuiltIn& built_in : kBuiltIns) names.push_back(built_in.name);
  const std::string_view near = base::nearest(call.name, names);
  const bool path = call.name.find('.') != std::string::npos;
  fail_key("reward_funcs",
           "reward_funcs: '{}' is {}{}; give one of {}; a program of your own is command:LINE for the trl "
           "command, "
           "and a host adds functions (trl_trainer_add_reward)",
           call.text, path ? "a path of Python, which is not run here" : "unknown",
           near.empty() ? std::string() : fmt::format("; did you mean {}?", near), base::join(names));
}

}  // namespace

std::unique_ptr<Reward> named_reward(std::string_view spec) {
  const RewardCall call = parse_reward_call(spec);
  const auto found = std::ranges::find(kBuiltIns, call.name, &BuiltIn::name);
  if (found == kBuiltIns.end()) refuse_name(call);
  return found->make(call);
}

}  // namespace trl::reward
