#include "config/markdown.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "config/option.h"

namespace trl::config {

namespace {

constexpr std::string_view kHead = R"(# Configuration

Every key that a configuration takes, in a file (`trl sft --config FILE`, YAML or JSON), as a flag of the command and
through the C API. Generated from `src/config/options.def`: do not edit.

- Names, defaults and meanings are those of TRL 1.16, except in the sections *Own keys*, *runtime*, *generate*, *save*,
  *convert*, *estimate* and *profile*.
- Dashes and underscores are the same in a key. *Also* lists names that a key had in earlier releases.
- `null`, `none` and an empty value mean null where null is accepted; `none` is itself a value of the keys that list
  it under *accepted*. Booleans are `true`, `yes`, `on`, `1` and `false`, `no`, `off`, `0`. A list is `[a, b]`, `a,b`
  or `a b`; a mapping is `{a: 1, b: 2}`.
- Every accepted value does what TRL's documentation says, unless the meaning names values that are *refused* (an error
  with the reason) or about which the log *warns* (one line that says what will not happen).
- *Trainers*: those that have the key, if not all trainers of this build do.
- The appendix lists the keys that have no effect in this build. They are known, so that files for TRL are read
  unchanged.
- An unknown key is an error that names the key that was meant: the nearest, or that of a name which axolotl,
  LLaMA-Factory or others use (`lr`, `cutoff_len`).

## Values with another name now

| key | was written | is now |
| --- | --- | --- |
)";

constexpr std::string_view kAppendix = R"(
## Appendix: keys without effect

The default and the values under *taken* are accepted in silence; the last column says what any other value gets, and
`"` repeats the line above. `trl options KEY` tells what a key is for.

| keys | type | default | taken | any other value |
| --- | --- | --- | --- | --- |
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

// Returns the names of the trainers that this build has.
std::string built(uint32_t trainers) {
  const std::vector<std::string_view> methods = taken(*find_option("method"));
  std::vector<std::string_view> names;
  const std::string all = trainer_names(trainers, ",");
  for (const std::string_view name : split_words(all, ','))
    if (contains(methods, name)) names.push_back(name);
  return fmt::format("{}", fmt::join(names, ", "));
}

bool has_limits(const Option& option) { return !option.unsupported.empty() || !option.warning.empty(); }

// Returns whether the text names each of the words, so that a list of them would add nothing.
bool names_all(std::string_view text, const std::vector<std::string_view>& words) {
  return std::all_of(words.begin(), words.end(), [&](auto word) { return text.find(word) != text.npos; });
}

std::string accepted(const Option& option) {
  const std::string null = option.nullable ? ", or null" : "";
  if (option.type == OptionType::map && names_all(option.doc, split_words(option.accepted, '|')))
    return "a mapping" + null;
  if (!has_limits(option) || option.type != OptionType::choice) return accepted_text(option);
  return fmt::format("one of {}{}", fmt::join(taken(option), ", "), null);
}

std::string limits(const Option& option) {
  if (!has_limits(option)) return {};
  const bool refused = !option.unsupported.empty();
  const bool named = refused && option.type == OptionType::choice;
  return fmt::format(" {} {}: {}.", refused ? "Refused" : "Warns",
                     named ? codes(others(option)) : "except for " + codes(taken(option)),
                     escaped(refused ? option.unsupported : option.warning));
}

// Returns the defaults and texts that trainers have instead of those of the row.
std::string by_trainer(const Option& option) {
  std::string out;
  for (const TrainerValues& values : trainer_values()) {
    const std::string names = built(values.trainers);
    if (values.name != option.name || names.empty()) continue;
    out += fmt::format(" For {}: default {}", names, code(values.default_value));
    const std::vector<std::string_view> words = split_words(values.accepted, '|');
    if (!names_all(values.doc, words)) out += fmt::format(", accepted {}", codes(words));
    out += ".";
    if (!values.doc.empty()) out += " " + escaped(values.doc);
  }
  return out;
}

std::string row(const Option& option) {
  std::string meaning = escaped(option.doc) + by_trainer(option) + limits(option);
  if (!option.aliases.empty()) meaning += fmt::format(" Also: {}.", codes(alias_list(option)));
  if (const std::string names = built(option.trainers); names != built(kAllTrainers))
    meaning += fmt::format(" Trainers: {}.", names);
  return fmt::format("| {} | {} | {} | {} |\n", code(option.name), code(option.default_value),
                     escaped(accepted(option)), meaning);
}

std::string outcome(const Option& option) {
  if (!has_limits(option)) return escaped(option.doc);
  if (option.unsupported.empty()) return fmt::format("Warning: {}.", escaped(option.warning));
  return fmt::format("Error: {}.", escaped(option.unsupported));
}

// Writes the appendix: keys that differ only in their names share a row; rows with the same outcome follow
// each other.
std::string appendix() {
  std::map<std::string, std::map<std::string, std::string>> outcomes;  // outcome, other cells, keys
  for (const Option& option : options()) {
    if (option.works) continue;
    const std::string type =
        choices(option).empty() ? std::string(type_name(option.type)) : accepted_text(option);
    std::string& keys = outcomes[outcome(option)][fmt::format(
        "{} | {} | {}", type, code(option.default_value), codes(split_words(option.no_ops, '|')))];
    keys += (keys.empty() ? "" : ", ") + code(option.name);
    if (!option.aliases.empty()) keys += " or " + codes(alias_list(option));
    const std::string names = built(option.trainers);
    if (!names.empty() && names != built(kAllTrainers)) keys += fmt::format(" ({})", names);
  }
  std::string out;
  for (const auto& [outcome, rows] : outcomes)
    for (const auto& [cells, keys] : rows)
      out += fmt::format("| {} | {} | {} |\n", keys, cells, cells == rows.begin()->first ? outcome : "\"");
  return out;
}

}  // namespace

std::string configuration_markdown() {
  std::string out(kHead);
  for (const OldValue& old : old_values()) {
    out += fmt::format("| {} | {} | {} |\n", code(old.name), code(old.written), code(old.meaning));
  }
  std::string_view section, group;
  for (const Option& option : options()) {
    if (!option.works) continue;
    if (option.section != section) {
      out += fmt::format("\n## {}\n", option.section);
      group = {};
    }
    if (option.group != group)
      out += fmt::format("\n### {}\n\n| key | default | accepted | meaning |\n| --- | --- | --- | --- |\n",
                         option.group);
    section = option.section;
    group = option.group;
    out += row(option);
  }
  return out.append(kAppendix) + appendix();
}

}  // namespace trl::config
