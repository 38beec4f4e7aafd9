#include "config/markdown.h"

#include <fmt/format.h>

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
  it under *accepted*. Booleans are `true`, `yes`, `on`, `1` and
  `false`, `no`, `off`, `0`. A list is `[a, b]`, `a,b` or `a b`; a mapping is `{a: 1, b: 2}`.
- *Works*: every accepted value does what TRL's documentation says. *Refused*: the values named are taken, any other is
  an error with the reason. *Warns*: any value is taken, and one warning says what will not happen.
- An unknown key is an error that names the key that was meant: the nearest, or that of a name which axolotl,
  LLaMA-Factory or others use (`lr`, `cutoff_len`).

## Values with another name now

| key | was written | is now |
| --- | --- | --- |
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

std::string codes(std::string_view text, char separator) {
  std::string out;
  for (const std::string_view word : split_words(text, separator))
    out += (out.empty() ? "" : ", ") + code(word);
  return out;
}

std::string support(const Option& option) {
  if (option.unsupported.empty() && option.warning.empty()) return "Works.";
  std::string taken = code(option.default_value);
  if (!option.no_ops.empty()) taken += ", " + codes(option.no_ops, '|');
  if (!option.unsupported.empty())
    return fmt::format("Refused, except for {}: {}.", taken, escaped(option.unsupported));
  return fmt::format("Warns, except for {}: {}.", taken, escaped(option.warning));
}

std::string trainers(const Option& option) {
  return option.trainers == kAllTrainers ? "all" : trainer_names(option.trainers, ", ");
}

// What trainers have otherwise.
std::string by_trainer(const Option& option) {
  std::string out;
  for (const TrainerValues& values : trainer_values()) {
    if (values.name != option.name) continue;
    const std::string names = trainer_names(values.trainers, ", ");
    out += fmt::format(" For {} the default is {}", names, code(values.default_value));
    if (!values.accepted.empty()) out += fmt::format(", of {}", codes(values.accepted, '|'));
    out += ".";
    if (!values.doc.empty()) out += " " + escaped(values.doc);
  }
  return out;
}

std::string row(const Option& option) {
  std::string meaning = escaped(option.doc) + by_trainer(option);
  if (!option.aliases.empty()) meaning += fmt::format(" Also: {}.", codes(option.aliases, ','));
  if (option.trainers != kAllTrainers) meaning += fmt::format(" Trainers: {}.", trainers(option));
  return fmt::format("| {} | {} | {} | {} | {} |\n", code(option.name), code(option.default_value),
                     escaped(accepted_text(option)), meaning, support(option));
}

}  // namespace

std::string configuration_markdown() {
  std::string out(kHead);
  for (const OldValue& old : old_values()) {
    out += fmt::format("| {} | {} | {} |\n", code(old.name), code(old.written), code(old.meaning));
  }
  std::string_view section, group;
  for (const Option& option : options()) {
    if (option.section != section) {
      out += fmt::format("\n## {}\n", option.section);
      group = {};
    }
    if (option.group != group) {
      out +=
          fmt::format("\n### {}\n\n| key | default | accepted | meaning | in this build |\n", option.group);
      out += "| --- | --- | --- | --- | --- |\n";
    }
    section = option.section;
    group = option.group;
    out += row(option);
  }
  return out;
}

}  // namespace trl::config
