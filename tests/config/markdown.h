// include/CONFIGURATION.md and include/CONFIGURATION_SERVE.md, rendered from the option table.
#pragma once
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "config/method.h"
#include "config/table/option.h"

namespace trl::config::page {

namespace {

constexpr std::string_view kHead = R"(# Configuration

Every key that a configuration takes, in a file (`trl sft --config FILE`, YAML or JSON), as a flag of the command and
through the C API; [trainers that write completions](CONFIGURATION_ONLINE.md) have more, and so have
[generating and serving](CONFIGURATION_SERVE.md). Generated from `src/config/options.def`: do not edit.

- Names, defaults and meanings are those of TRL 1.16, except in the sections *Own keys*, *runtime*, *save*, *convert*,
  *estimate* and *profile*.
- An entry has the key, the trainers that have it if not all do, the default, other accepted values (with `true` or
  `false`: the other) and the meaning; *Also* names it in earlier releases. Dashes and underscores are the same.
- A key whose default is `null` accepts null: `null`, `none` (unless it is a value of the key) or an empty value.
  Booleans are `true`, `yes`, `on`, `1` and `false`, `no`, `off`, `0`. A list is `[a, b]`, `a,b` or `a b`; a mapping is
  `{a: 1, b: 2}`; bytes may have GiB, MiB, GB or MB, as in `6GiB`.
- Every accepted value does what TRL's documentation says, unless the meaning names values that are *refused* (an error
  with the reason) or about which the log *warns* (one line that says what will not happen).
- The appendix lists keys that have no effect in this build but are known, so that files for TRL are read unchanged.
- An unknown key is an error that names the key that was meant: the nearest, or that of a name which axolotl,
  LLaMA-Factory or others use (`lr`, `cutoff_len`).

## Values with another name now
)";

constexpr std::string_view kServeHead = R"(# Configuration of generation and of the server

The keys of `trl generate`, `trl chat`, `trl vllm-serve`, of generators and of servers. [CONFIGURATION.md](CONFIGURATION.md)
says how entries are written. Generated from `src/config/options.def`: do not edit.
)";

constexpr std::string_view kAppendix = R"(
## Appendix: keys without effect

Before each colon are the type (of `true` and `false`: boolean), the default and other values that are taken in silence;
the first column says what any other value gets. `trl options KEY` tells what a key is for.

| any other value | keys |
|---|---|
)";

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '|') out += '\\';
    out += c;
  }
  return out;
}

std::string code(std::string_view text) {
  return text.empty() ? "empty" : fmt::format("`{}`", escaped(text));
}

std::string codes(const std::vector<std::string_view>& words) {
  std::string out;
  for (const std::string_view word : words) out += (out.empty() ? "" : ", ") + code(word);
  return out;
}

bool contains(const std::vector<std::string_view>& words, std::string_view word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

// Returns the default and the other values that work, or are at least accepted in silence.
std::vector<std::string_view> taken(const Option& option) {
  std::vector<std::string_view> words = split_words(option.no_ops, '|');
  if (!contains(words, option.default_value)) words.insert(words.begin(), option.default_value);
  return words;
}

// Returns the values of a choice that are not accepted in silence.
std::vector<std::string_view> others(const Option& option) {
  std::vector<std::string_view> words = choices(option);
  std::erase_if(words, [known = taken(option)](std::string_view word) { return contains(known, word); });
  return words;
}

// Returns the bits of the trainers whose steps write completions: they have a page of their own.
uint32_t online() {
  uint32_t bits = 0;
  for (size_t i = 0; i < trainers().size(); ++i)
    if (trainers()[i].generates) bits |= 1u << i;
  return bits;
}

// The pages: of all trainers, of those whose steps write completions, of generation and the server.
enum class Page : uint8_t { common, online, serve };

Page page_of(const Option& option) {
  if (option.section == "generate" || option.section == "serve") return Page::serve;
  return (option.trainers & ~online()) == 0 ? Page::online : Page::common;
}

// Returns the bits of the trainers that the page is about.
uint32_t trainers_on(Page page) {
  if (page == Page::online) return online();
  return page == Page::serve ? uint32_t{kAllTrainers} : kAllTrainers & ~online();
}

bool has_limits(const Option& option) { return !option.unsupported.empty() || !option.warning.empty(); }

// Returns whether the text names each of the words, so that a list of them would add nothing.
bool names_all(std::string_view text, const std::vector<std::string_view>& words) {
  return std::all_of(words.begin(), words.end(), [&](auto word) { return text.find(word) != text.npos; });
}

// Returns ", integer > 0", ", or a, b" (besides the default), ...; empty if the default says all: a boolean.
std::string accepted(const Option& option) {
  const std::string null = option.nullable && option.default_value != "null" ? ", or null" : "";
  const std::vector<std::string_view> words = split_words(option.accepted, '|');
  if (option.type == OptionType::boolean) return (option.default_value == "null" ? ", boolean" : "") + null;
  const bool explained = std::any_of(options().begin(), options().end(), [&](const Option& other) {
    return other.accepted == option.accepted && names_all(other.doc, words);
  });
  if (option.type == OptionType::map && explained) return ", mapping" + null;
  if (option.type == OptionType::choice) {
    std::vector<std::string_view> rest = has_limits(option) ? taken(option) : words;
    std::erase(rest, option.default_value);
    return fmt::format(", or {}{}", fmt::join(rest, ", "), null);
  }
  std::string text = accepted_text(option);
  for (const std::string_view begin : {"an ", "a ", "one of "})
    if (text.starts_with(begin)) text.erase(0, begin.size());
  for (const std::string_view end : {", or null", ", or a number with"})
    text.resize(std::min(text.find(end), text.size()));
  return ", " + text + null;
}

std::string limits(const Option& option) {
  if (!has_limits(option)) return {};
  if (option.unsupported.empty())
    return fmt::format(" Warns except for {}: {}.", codes(taken(option)), option.warning);
  if (option.type != OptionType::choice)
    return fmt::format(" Refused except for {}: {}.", codes(taken(option)), option.unsupported);
  constexpr size_t kFew = 8;  // of more the reason says enough
  const std::vector<std::string_view> words = others(option);
  if (words.empty()) return "";
  return fmt::format(" Refused{}: {}.", words.size() > kFew ? "" : " " + codes(words), option.unsupported);
}

// Returns the defaults and texts that some of the trainers have instead of those of the row.
std::string by_trainer(const Option& option, uint32_t page) {
  std::string out;
  for (const TrainerValues& values : trainer_values()) {
    const std::string names = trainer_names(values.trainers & page, ", ");
    if (values.name != option.name || names.empty()) continue;
    out += fmt::format(" For {}: {}", names, code(values.default_value));
    std::vector<std::string_view> words = split_words(values.accepted, '|');
    std::erase(words, values.default_value);
    const bool range = !words.empty() && is_range(words.back());
    if (!names_all(values.doc, words))
      out += fmt::format("{} {}", range ? "," : " or", fmt::join(words, ", "));
    out += ".";
    if (!values.doc.empty()) out += fmt::format(" {}", values.doc);
  }
  return out;
}

// Returns " (sft, dpo)" if not all trainers of the page have the option.
std::string some_trainers(const Option& option, uint32_t page) {
  const uint32_t having = option.trainers & page;
  return having == page ? "" : fmt::format(" ({})", trainer_names(having, ", "));
}

std::string entry(const Option& option, Page of) {
  const uint32_t page = trainers_on(of);
  std::string text = fmt::format("- {}{} = {}{}: {}{}{}", code(option.name), some_trainers(option, page),
                                 code(option.default_value), accepted(option), option.doc,
                                 by_trainer(option, page), limits(option));
  if (!option.aliases.empty()) text += fmt::format(" Also: {}.", codes(alias_list(option)));
  return text + "\n";
}

std::string outcome(const Option& option) {
  if (!has_limits(option)) return escaped(option.doc);
  if (option.unsupported.empty()) return fmt::format("Warning: {}.", escaped(option.warning));
  return fmt::format("Error: {}.", escaped(option.unsupported));
}

// Writes a row for each outcome; keys that differ only in their names are listed together.
std::string appendix(Page page) {
  std::map<std::string, std::map<std::string, std::string>> outcomes;  // outcome, form, keys
  for (const Option& option : options()) {
    if (option.works || page_of(option) != page) continue;
    const bool boolean = option.type == OptionType::boolean && option.default_value != "null";
    const std::vector<std::string_view> words = choices(option);
    const std::string type =
        words.empty() ? std::string(type_name(option.type)) : fmt::format("{}", fmt::join(words, ", "));
    std::string& keys = outcomes[outcome(option)][(boolean ? "" : type + " ") + codes(taken(option))];
    keys += (keys.empty() ? "" : ", ") + std::string(option.name);
    for (const std::string_view alias : alias_list(option)) keys += fmt::format(" or {}", alias);
    keys += some_trainers(option, trainers_on(page));
  }
  std::string out;
  for (const auto& [outcome, forms] : outcomes) {
    out += fmt::format("| {} | ", outcome);
    for (const auto& [form, keys] : forms)
      out += fmt::format("{}{}: {}", form == forms.begin()->first ? "" : "; ", form, keys);
    out += " |\n";
  }
  return out;
}

// Returns whether the option's entry is on the page.
bool has_entry(const Option& option, Page page) { return option.works && page_of(option) == page; }

// Returns whether keys of the section that work have different subjects.
bool has_groups(std::string_view section, Page page) {
  std::string_view group;
  return std::any_of(options().begin(), options().end(), [&](const Option& option) {
    if (!has_entry(option, page) || option.section != section) return false;
    if (group.empty()) group = option.group;
    return option.group != group;
  });
}

// Returns the entries of the page, by section and subject.
std::string entries(Page page) {
  std::string out;
  std::string_view section, group;
  for (const Option& option : options()) {
    if (!has_entry(option, page)) continue;
    const bool begins = option.section != section, groups = has_groups(option.section, page);
    if (begins) out += fmt::format("\n## {}\n{}", option.section, groups ? "" : "\n");
    if ((begins || option.group != group) && groups) out += fmt::format("\n### {}\n\n", option.group);
    section = option.section;
    group = option.group;
    out += entry(option, page);
  }
  return out;
}

// Returns a line for each key of the page with values that have another name now.
std::string renamed(Page page) {
  std::string out;
  std::string_view name;
  for (const OldValue& old : old_values()) {
    if (page_of(*find_option(old.name)) != page) continue;
    out += old.name == name ? ", " : fmt::format("\n- {}: ", code(name = old.name));
    out += fmt::format("{} is {}", code(old.written), code(old.meaning));
  }
  return out + "\n";
}

}  // namespace

inline std::string configuration_markdown() {
  std::string out(kHead);
  const Page page = Page::common;
  return out.append(renamed(page)).append(entries(page)).append(kAppendix) + appendix(page);
}

inline std::string serve_markdown() { return std::string(kServeHead) + entries(Page::serve); }

}  // namespace trl::config::page
