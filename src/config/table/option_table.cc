// Turns options.def into arrays, and answers questions about a row.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "config/method.h"
#include "config/table/option.h"

namespace trl::config {

namespace {

// The texts of the option `method` and the sets of trainers in options.def, from the table of methods.

constexpr char kMethodDefault[] =
#define TRL_METHOD(bit, name, ...) #name "\0"
#include "config/methods.def"
    ;

// "|sft|dpo|..." of all trainers, and of those that this version has
constexpr char kEachTrainer[] =
#define TRL_METHOD(bit, name, ...) "|" #name
#define TRL_LATER TRL_METHOD
#include "config/methods.def"
    ;
constexpr char kEachMethod[] =
#define TRL_METHOD(bit, name, ...) "|" #name
#include "config/methods.def"
    ;
constexpr std::string_view kMethodAccepted =
    std::string_view(kEachTrainer, sizeof(kEachTrainer) - 1).substr(1);

// The place in kEachMethod of the first separator after `at`, or of its end; and of the last separator.
constexpr size_t next_separator(size_t at) {
  do ++at;
  while (at < sizeof(kEachMethod) - 1 && kEachMethod[at] != '|');
  return at;
}
constexpr size_t last_separator() {
  size_t at = 0;
  for (size_t next = next_separator(at); next < sizeof(kEachMethod) - 1; next = next_separator(at)) at = next;
  return at;
}
constexpr std::string_view kMethodTaken =
    std::string_view(kEachMethod, sizeof(kEachMethod) - 1).substr(next_separator(0) + 1);

// "the methods in this build are a, b and c"
constexpr auto kMethodRefused = [] {
  constexpr std::string_view kBegin = "the methods in this build are";
  std::array<char, kBegin.size() + 2 * sizeof(kEachMethod)> text{};
  auto end = std::ranges::copy(kBegin, text.begin()).out;
  for (size_t i = 0; i < sizeof(kEachMethod) - 1; ++i) {
    if (kEachMethod[i] != '|') {
      *end++ = kEachMethod[i];
      continue;
    }
    const std::string_view between = i == 0 ? " " : i == last_separator() ? " and " : ", ";
    end = std::ranges::copy(between, end).out;
  }
  return text;
}();

// Trainers whose steps write completions.
constexpr uint32_t kGenerating = 0
#define TRL_METHOD(bit, word, ...) | (MethodRow{.name = #word, __VA_ARGS__}.generates ? uint32_t{bit} : 0u)
#define TRL_LATER TRL_METHOD
#include "config/methods.def"
    ;

constexpr bool nullable = true;
constexpr bool required = false;

// Spreads a row's `support` over the last five members of Option.
#define WORKS(affects) true, Affects::affects, "", "", ""
#define IGNORED false, Affects::nothing, "", "", ""
#define REFUSED(no_ops, why) false, Affects::nothing, why, no_ops, ""
#define OUTSIDE(no_ops, what) false, Affects::nothing, "", no_ops, what
#define PARTLY(...) PARTLY_ROW(__VA_ARGS__)
#define PARTLY_ROW(affects, works, nothing, ...) true, Affects::affects, __VA_ARGS__

constexpr Option kOptions[] = {
#define TRL_OPTION(name, type, null, default_value, accepted, aliases, support, doc) \
  TRL_OPTION_ROW(kAllTrainers, name, type, null, default_value, accepted, aliases, doc, support)
#define TRL_OPTION_OF(trainers, name, type, null, default_value, accepted, aliases, support, doc) \
  TRL_OPTION_ROW(trainers, name, type, null, default_value, accepted, aliases, doc, support)
#define TRL_OPTION_ROW(trainers, name, type, null, default_value, accepted, aliases, doc, ...)      \
  Option{name,     TRL_SECTION, TRL_GROUP, TRL_ORIGIN, OptionType::type, null,       default_value, \
         accepted, trainers,    aliases,   doc,        "0.1.0",          __VA_ARGS__},
#define TRL_OLD_VALUE(...)
#define TRL_FOR(...)
#include "config/options.def"
#undef TRL_OPTION
#undef TRL_OPTION_OF
#undef TRL_OLD_VALUE
#undef TRL_FOR
};

#define TRL_OPTION(...)
#define TRL_OPTION_OF(...)
constexpr OldValue kOldValues[] = {
#define TRL_OLD_VALUE(...) OldValue{__VA_ARGS__},
#define TRL_FOR(...)
#include "config/options.def"
#undef TRL_OLD_VALUE
#undef TRL_FOR
};

constexpr TrainerValues kTrainerValues[] = {
#define TRL_OLD_VALUE(...)
#define TRL_FOR(trainers, name, ...) TrainerValues{name, trainers, __VA_ARGS__},
#include "config/options.def"
#undef TRL_OLD_VALUE
#undef TRL_FOR
};
#undef TRL_OPTION
#undef TRL_OPTION_OF

bool same_name(std::string_view written, std::string_view name) {
  return std::ranges::equal(written, name, [](char a, char b) { return (a == '-' ? '_' : a) == b; });
}

std::string joined(const std::vector<std::string_view>& words, std::string_view separator) {
  return fmt::format("{}", fmt::join(words, separator));
}

// Returns whether a choice or a number may be a list in this trainer.
bool takes_list(const Option& option, std::string_view trainer) {
  return (option.type == OptionType::choice || option.type == OptionType::number) &&
         default_of(option, trainer).starts_with('[');
}

std::string type_text(const Option& option, std::string_view trainer) {
  const std::vector<std::string_view> words = split_words(accepted_of(option, trainer), '|');
  if (takes_list(option, trainer)) {
    return "one or a list of " +
           (option.type == OptionType::number ? ranged("numbers", words.back()) : joined(words, ", "));
  }
  switch (option.type) {
    case OptionType::boolean:
      return words.empty() ? "true or false" : joined(words, ", ");
    case OptionType::choice:
      return "one of " + joined(words, ", ");
    case OptionType::text:
      return words.empty() ? "text" : "one of " + joined(words, ", ");
    case OptionType::list:
      if (!words.empty() && words.front() == "path") return "a list or the name of a file";
      return words.empty() ? "a list" : "a list of " + joined(words, ", ");
    case OptionType::map:
      if (words.empty()) return "a mapping";
      if (words.front() == "path") return "a mapping or the name of a file";
      return "a mapping with the keys " + joined(words, ", ");
    case OptionType::integer:
    case OptionType::number:
      break;
  }
  const std::string kind = option.type == OptionType::integer ? "an integer" : "a number";
  if (words.empty()) return kind;
  if (!is_range(words.back())) return joined(words, " or ");
  if (words.back().starts_with(kBytes))
    return fmt::format("{}, or a number with GiB, MiB, GB or MB, as in 6GiB", words.back());
  const std::string range = ranged(kind, words.back());
  return words.size() > 1 ? fmt::format("{} or {}", words.front(), range) : range;
}

uint32_t bit_of(std::string_view trainer) {
  for (size_t i = 0; i < trainers().size(); ++i)
    if (same_name(trainer, trainers()[i].name)) return 1u << i;
  return 0;
}

const TrainerValues* values_of(const Option& option, std::string_view trainer) {
  for (const TrainerValues& values : kTrainerValues)
    if (values.name == option.name && (values.trainers & bit_of(trainer)) != 0) return &values;
  return nullptr;
}

}  // namespace

std::span<const Option> options() { return kOptions; }
std::span<const TrainerValues> trainer_values() { return kTrainerValues; }

std::string_view default_of(const Option& option, std::string_view trainer) {
  const TrainerValues* const values = values_of(option, trainer);
  return values != nullptr ? values->default_value : option.default_value;
}

std::string_view accepted_of(const Option& option, std::string_view trainer) {
  const TrainerValues* const values = values_of(option, trainer);
  return values != nullptr && !values->accepted.empty() ? values->accepted : option.accepted;
}

std::string_view doc_of(const Option& option, std::string_view trainer) {
  const TrainerValues* const values = values_of(option, trainer);
  return values != nullptr && !values->doc.empty() ? values->doc : option.doc;
}

OptionType type_of(const Option& option, std::string_view trainer) {
  return takes_list(option, trainer) ? OptionType::list : option.type;
}

bool is_of(const Option& option, std::string_view trainer) {
  return (option.trainers & bit_of(trainer)) != 0;
}
std::span<const OldValue> old_values() { return kOldValues; }

const Option* find_option(std::string_view name_or_alias) {
  for (const Option& option : kOptions)
    if (same_name(name_or_alias, option.name)) return &option;
  for (const Option& option : kOptions) {
    for (const std::string_view alias : alias_list(option))
      if (same_name(name_or_alias, alias)) return &option;
  }
  return nullptr;
}

std::string_view type_name(OptionType type) {
  constexpr std::array<std::string_view, 7> kNames = {"boolean", "integer", "number", "text",
                                                      "choice",  "list",    "map"};
  return kNames[static_cast<size_t>(type)];
}

std::string trainer_names(uint32_t bits, std::string_view separator) {
  std::vector<std::string_view> names;
  for (size_t i = 0; i < trainers().size(); ++i)
    if ((bits & (1u << i)) != 0) names.emplace_back(trainers()[i].name);
  return joined(names, separator);
}

std::string_view trimmed(std::string_view text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  return text;
}

std::vector<std::string_view> split_words(std::string_view text, char separator) {
  std::vector<std::string_view> words;
  while (!text.empty()) {
    const size_t end = std::min(text.find(separator), text.size());
    const std::string_view word = trimmed(text.substr(0, end));
    if (!word.empty()) words.push_back(word);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return words;
}

std::vector<std::string_view> alias_list(const Option& option) { return split_words(option.aliases, ','); }

std::vector<std::string_view> choices(const Option& option) {
  if (option.type != OptionType::choice) return {};
  std::vector<std::string_view> words = split_words(option.accepted, '|');
  for (const TrainerValues& values : kTrainerValues) {
    if (values.name != option.name) continue;
    for (const std::string_view word : split_words(values.accepted, '|'))
      if (std::ranges::find(words, word) == words.end()) words.push_back(word);
  }
  return words;
}

std::string accepted_text(const Option& option, std::string_view trainer) {
  if (accepted_of(option, trainer) == "null") return "null";
  return type_text(option, trainer) + (option.nullable ? ", or null" : "");
}

bool is_range(std::string_view word) {
  return word.starts_with(kBytes) ||
         (!word.empty() && std::string_view("<>[(").find(word.front()) != std::string_view::npos);
}

std::string ranged(std::string_view kind, std::string_view range) {
  if (range.empty()) return std::string(kind);
  const bool interval = range.front() == '[' || range.front() == '(';
  return fmt::format("{}{} {}", kind, interval ? " in" : "", range);
}

std::string underscored(std::string_view key) {
  std::string name(key);
  std::ranges::replace(name, '-', '_');
  return name;
}

}  // namespace trl::config
