#include "config/table/option_value.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text/nearest.h"

namespace trl::config {

namespace {

struct OtherNames {
  std::string_view key, names;
};

constexpr OtherNames kOtherNames[] = {
#define TRL_NAMES(key, names) {key, names},
#include "config/options/other_names.def"
#undef TRL_NAMES
};

bool names(std::string_view list, std::string_view name) {
  const std::vector<std::string_view> words = split_words(list, ',');
  return std::ranges::find(words, name) != words.end();
}

struct GoneValue {
  std::string_view key, value, what;
};

constexpr std::string_view kToKto =
    "it became a trainer of its own: trl kto (method: kto), which also takes pairs of chosen and rejected";
constexpr std::string_view kNotHere = "it became a trainer of its own, which this build does not have";

constexpr GoneValue kGoneValues[] = {
    {"loss_type", "kto_pair", kToKto},
    {"loss_type", "kto", kToKto},
    {"loss_type", "bco",
     "it became a trainer of its own, which this build does not have; trl dpo has bco_pair"},
    {"loss_type", "orpo", kNotHere},
    {"loss_type", "cpo", kNotHere},
    {"loss_type", "simpo",
     "it is a loss of the trainer CPO, which this build does not have; the nearest of trl dpo is "
     "sigmoid_norm, which takes means over tokens too, with a reference"},
    {"loss_type", "aot_pair", "it is called aot_unpaired now"},
    {"loss_type", "dpo", "it is called sigmoid"},
};

// Returns the key with this name in a group, such as generate; empty: none.
std::string_view key_in_group(std::string_view name, std::string_view trainer) {
  const std::string end = fmt::format(".{}", name);
  for (const Option& option : options())
    if (option.name.ends_with(end) && (trainer.empty() || is_of(option, trainer))) return option.name;
  return {};
}

}  // namespace

std::string_view other_names(const Option& option) {
  for (const OtherNames& other : kOtherNames)
    if (other.key == option.name) return other.names;
  return {};
}

std::string_view key_called(std::string_view name, std::string_view trainer) {
  for (const OtherNames& other : kOtherNames) {
    const Option* const option = names(other.names, name) ? find_option(other.key) : nullptr;
    if (option != nullptr && (trainer.empty() || is_of(*option, trainer))) return option->name;
  }
  return key_in_group(name, trainer);
}

std::string unknown_key(std::string_view key, std::string_view trainer) {
  const std::string plain = underscored(key);
  if (const std::string_view here = key_called(plain, trainer); !here.empty()) {
    const std::string_view grouped = key_in_group(plain, trainer);
    const std::string other = grouped.empty() || grouped == here ? "" : fmt::format(", or {}", grouped);
    return fmt::format("{}: unknown key; the key for it is {}{}", shown(key), here, other);
  }
  std::vector<std::string_view> candidates;
  for (const Option& option : options()) {
    if (option.section == "trl and accelerate launch") continue;
    if (!trainer.empty() && !is_of(option, trainer)) continue;
    candidates.push_back(option.name);
    for (const std::string_view alias : alias_list(option)) candidates.push_back(alias);
  }
  const std::string_view near = base::nearest(plain, candidates);
  if (near.empty() || key.empty()) return fmt::format("{}: unknown key", shown(key));
  return fmt::format("{}: unknown key; the nearest is {}", shown(key), near);
}

std::string_view gone_value(std::string_view key, std::string_view value) {
  for (const GoneValue& gone : kGoneValues)
    if (gone.key == key && gone.value == value) return gone.what;
  return {};
}

}  // namespace trl::config
