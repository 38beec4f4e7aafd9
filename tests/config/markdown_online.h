// include/CONFIGURATION_ONLINE.md, rendered from the option table.
#pragma once
#include "markdown.h"

namespace trl::config::page {

namespace {

constexpr std::string_view kOnlineHead = R"(# Configuration of trainers that write completions

The keys of {}.
They have those of [CONFIGURATION.md](CONFIGURATION.md), which says how entries are written, with the values of the first
section below and without the keys of the second; and the others here. Names, defaults and meanings are those of TRL 1.16,
and of 1.10 for ppo, except in the section *Own keys*. Generated from `src/config/options.def`: do not edit.
{}
## Keys of CONFIGURATION.md with other values

)";

constexpr std::string_view kLacking = R"(
## Keys of CONFIGURATION.md that they lack

)";

// Returns names of trainers, those that this version has or has not.
std::string online_names(bool built) {
  std::vector<std::string_view> names;
  for (const MethodRow& row : trainers())
    if (row.generates && row.built == built) names.emplace_back(row.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

// Returns the keys of the other page that these trainers lack, besides those that all lack.
std::string lacking(uint32_t trainers, bool all) {
  std::vector<std::string_view> keys;
  for (const Option& option : options()) {
    if (page_of(option) != Page::common) continue;
    const uint32_t having = option.trainers & online();
    if (all ? having == 0 : having != 0 && (having & trainers) == 0) keys.push_back(option.name);
  }
  return fmt::format("{}", fmt::join(keys, ", "));
}

}  // namespace

inline std::string online_markdown() {
  const std::string later = online_names(false);
  std::string out = fmt::format(kOnlineHead, trainer_names(online(), ", "),
                                later.empty() ? "" : fmt::format("\nNot in this version yet: {}.\n", later));
  for (const Option& option : options()) {
    if (page_of(option) != Page::common) continue;
    if (const std::string text = by_trainer(option, online()); !text.empty())
      out += fmt::format("- {}:{}\n", code(option.name), text);
  }
  out.append(kLacking) += fmt::format("- all: {}\n", lacking(online(), true));
  for (size_t i = 0; i < trainers().size(); ++i) {
    const std::string keys = lacking(1u << i, false);
    if (trainers()[i].generates && !keys.empty()) out += fmt::format("- {}: {}\n", trainers()[i].name, keys);
  }
  out += "\n## Values with another name now\n" + renamed(Page::online);
  return out.append(entries(Page::online)).append(kAppendix) + appendix(Page::online);
}

}  // namespace trl::config::page
