#include "config/table/option_value.h"

#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/text/nearest.h"
#include "base/text/number.h"
#include "config/sizes_and_paths.h"
#include "config/table/option_set.h"
#include "config/yaml.h"

namespace trl::config {

namespace {

bool contains(const std::vector<std::string_view>& words, std::string_view word) {
  return std::ranges::find(words, word) != words.end();
}

// Returns whether text means null; `none` is a value of the keys that accept it as one.
bool is_null(const Option& option, std::string_view text) {
  if (text == "none" && contains(split_words(option.accepted, '|'), text)) return false;
  const std::string word = in_small_letters(text);
  return word.empty() || word == "null" || word == "none" || (word == "~" && option.type != OptionType::text);
}

// Returns "one of a, b".
std::string offered(const Option& option, std::string_view trainer) {
  const std::vector<std::string_view> words = words_of(option, trainer);
  if (option.unsupported.empty() || words.empty()) return accepted_text(option, trainer);
  return fmt::format("one of {}{}", base::join(words), option.nullable ? ", or null" : "");
}

[[noreturn]] void fail_value(const Option& option, std::string_view key, std::string_view text,
                             std::string_view trainer = {}, std::string_view word = {}) {
  if (word.empty()) word = text;
  if (const std::string_view gone = gone_value(option.name, word); !gone.empty())
    fail_key(key, "{}: {} is not accepted here: {}", key, shown(word), gone);
  const std::string_view near = base::nearest(word, words_of(option, trainer));
  if (near.empty())
    fail_key(key, "{}: {} is not accepted; give {}", key, shown(text), offered(option, trainer));
  fail_key(key, "{}: {} is not accepted; did you mean {}? Accepted: {}", key, shown(text), near,
           offered(option, trainer));
}

// Returns whether a trainer has a range that the number is in; without any range, each number is accepted.
bool in_some_range(const Option& option, double number) {
  std::vector<std::string_view> words = split_words(option.accepted, '|');
  if (words.empty()) return true;
  for (const TrainerValues& values : trainer_values())
    if (values.name == option.name)
      std::ranges::copy(split_words(values.accepted, '|'), std::back_inserter(words));
  return std::ranges::any_of(words, [&](auto word) { return is_range(word) && in_range(word, number); });
}

// Reads an integer that is written with an exponent or with zeros after the point, whatever its size.
std::optional<int64_t> whole_number(std::string_view text) {
  const size_t end = std::min(text.find_first_of("eE"), text.size());
  std::string digits(text.substr(0, end));
  int64_t zeros = 0;
  if (end < text.size()) zeros = base::parse_int64(text.substr(end + 1)).value_or(-1);
  if (const size_t point = digits.find('.'); point != std::string::npos) {
    digits.erase(point, 1);
    zeros -= static_cast<int64_t>(digits.size() - point);
  }
  for (; zeros < 0 && digits.ends_with('0'); ++zeros) digits.pop_back();
  if (zeros < 0 || zeros > std::numeric_limits<int64_t>::digits10) return std::nullopt;
  return base::parse_int64(digits.append(static_cast<size_t>(zeros), '0'));
}

std::string canonical_number(const Option& option, std::string_view key, std::string_view text,
                             std::string_view trainer) {
  const std::vector<std::string_view> accepted = split_words(option.accepted, '|');
  if (accepted.size() > 1 && text == accepted.front()) return std::string(text);
  const bool bytes = !accepted.empty() && accepted.back().starts_with(kBytes);
  const std::string plain = without_underscores(text);
  const std::optional<int64_t> integer = bytes ? parse_memory_size(plain) : base::parse_int64(plain);
  const std::optional<double> number = integer ? static_cast<double>(*integer) : base::parse_double(plain);
  if (!number || !std::isfinite(*number)) fail_value(option, key, text, trainer);
  if (!in_some_range(option, *number)) fail_value(option, key, text, trainer);
  if (option.type == OptionType::number) return base::format_double(*number == 0 ? 0.0 : *number);
  if (integer) return std::to_string(*integer);
  const std::optional<int64_t> whole = whole_number(plain);
  if (!whole) fail_value(option, key, text);
  return std::to_string(*whole);
}

// Reads "[a, b]", "a,b" or "a b".
base::Json list_of(const Option& option, std::string_view key, std::string_view text) {
  base::Json items = base::Json::array();
  if (text.starts_with('[')) {
    items = parse_flow(text, key);
    if (!items.is_array()) fail_value(option, key, text);
    return items;
  }
  std::string spaced(text);
  std::ranges::replace(spaced, ',', ' ');
  for (const std::string_view word : split_words(spaced, ' ')) items.push_back(word);
  return items;
}

std::string canonical_numbers(const Option& option, std::string_view key, std::string_view text,
                              std::string_view trainer) {
  base::Json numbers = base::Json::array();
  for (const base::Json& item : list_of(option, key, text))
    numbers.push_back(base::parse_double(canonical_number(option, key, as_text(item), trainer)).value());
  if (numbers.empty()) fail_value(option, key, text, trainer);
  return numbers.dump();
}

std::string canonical_words(const Option& option, std::string_view key, std::string_view text,
                            const std::vector<std::string_view>& words, std::string_view trainer) {
  const base::Json list = list_of(option, key, text);
  if (list.empty()) fail_value(option, key, text, trainer);
  for (const base::Json& item : list)
    if (!item.is_string() || !contains(words, item.get_ref<const std::string&>()))
      fail_value(option, key, text, trainer, as_text(item));
  return list.dump();
}

// Reads a choice. A boolean represents the word from which YAML 1.1 would have made it: `no` for
// eval_strategy, `on` for fused_kernels.
std::string canonical_choice(const Option& option, std::string_view key, std::string_view text,
                             std::string_view trainer) {
  const std::vector<std::string_view> words = choices(option);
  if (text.find_first_of("[, ") != text.npos && is_list_somewhere(option))
    return canonical_words(option, key, text, words, trainer);
  if (contains(words, text)) return std::string(text);
  if (contains(words, in_small_letters(text))) return in_small_letters(text);  // Q8_0, as llama.cpp writes it
  if (const std::optional<bool> flag = parse_bool(text)) {
    for (const std::string_view word : words)
      if (parse_bool(word) == flag) return std::string(word);
  }
  fail_value(option, key, text, trainer);
}

std::string canonical_sets(const Option& option, std::string_view key, std::string_view text) {
  base::Json sets = base::Json::array();
  if (text.starts_with('[')) {
    const base::Json list = parse_flow(text, key);
    if (!list.is_array()) fail_value(option, key, text);
    for (const base::Json& item : list) sets.push_back(parse_option_set(as_text(item), key));
  } else {
    sets.push_back(parse_option_set(text, key));
  }
  return sets.dump();
}

// Returns the words of a text, whose parentheses hold what they hold. A command line is the whole text.
std::vector<std::string> words_of_calls(std::string_view text) {
  if (text.find("command:") != text.npos) return {std::string(text)};
  std::vector<std::string> words(1);
  int depth = 0;
  for (const char c : text) {
    depth += c == '(' ? 1 : c == ')' ? -1 : 0;
    if (depth > 0 || (c != ' ' && c != ','))
      words.back() += c;
    else if (!words.back().empty())
      words.emplace_back();
  }
  if (words.back().empty()) words.pop_back();
  return words;
}

std::string canonical_calls(const Option& option, std::string_view key, std::string_view text) {
  if (!text.starts_with('[')) return base::Json(words_of_calls(text)).dump();
  const base::Json list = list_of(option, key, text);
  for (const base::Json& item : list)
    if (!item.is_string()) fail_value(option, key, text, {}, as_text(item));
  return list.dump();
}

std::string canonical_list(const Option& option, std::string_view key, std::string_view text) {
  if (option.accepted == kOptionSets) return canonical_sets(option, key, text);
  if (option.accepted == kCalls) return canonical_calls(option, key, text);
  const bool path = option.accepted == "path";
  base::Json items = base::Json::array();
  if (text.starts_with('{')) fail_value(option, key, text);
  if (path && !text.starts_with('[')) {
    const bool quoted = text.starts_with('"');
    const base::Json name = quoted ? parse_flow(text, key) : base::Json(text);
    if (!name.is_string()) fail_value(option, key, text);
    return name.dump();
  }
  for (const base::Json& item : list_of(option, key, text)) {
    if (item.is_null() && !takes_null_items(option)) fail_value(option, key, text);
    const bool kept = item.is_string() || item.is_object() || (path && item.is_array());
    items.push_back(kept ? item : base::Json(item.dump()));  // mappings: datasets; lists: conversations
  }
  if (path) return items.dump();
  const std::vector<std::string_view> words = split_words(option.accepted, '|');
  for (const base::Json& item : items)
    if (!words.empty() && (!item.is_string() || !contains(words, item.get_ref<const std::string&>())))
      fail_value(option, key, text, {}, as_text(item));
  return items.dump();
}

std::string canonical_map(const Option& option, std::string_view key, std::string_view text) {
  const std::vector<std::string_view> words = split_words(option.accepted, '|');
  const bool path = !words.empty() && words.front() == "path";
  const base::Json map = parse_flow(text, key);
  if (path && map.is_string()) return map.dump();
  if (path && (map.is_number() || map.is_boolean())) return base::Json(text).dump();  // a name: 1, on
  if (!map.is_object()) fail_value(option, key, text);
  if (words.size() > (path ? 1 : 0)) {
    for (const auto& [name, value] : map.items())
      if (!contains(words, name))
        fail_key(key, "{}: unknown entry {}; give {}", key, shown(name), accepted_text(option));
  }
  return map.dump();
}

// Returns the part of the value that neither the default nor the no-ops cover; empty: all of it is covered.
std::string uncovered(const Option& option, const std::string& value) {
  if (value == option.default_value) return {};
  const std::vector<std::string_view> no_ops = split_words(option.no_ops, '|');
  if (option.type == OptionType::list || option.type == OptionType::map) {
    const base::Json json = base::Json::parse(value);
    if (json.is_string()) return shown(as_text(json));
    for (const auto& [name, item] : json.items()) {
      const std::string text = as_text(item);
      if (json.is_array() && !contains(no_ops, text)) return shown(text);
      if (json.is_object() && !contains(no_ops, name) && !contains(no_ops, name + "=" + text))
        return fmt::format("{}: {}", name, shown(text));
    }
    return {};
  }
  if (value == "null" || contains(no_ops, value)) return {};
  return shown(value);
}

}  // namespace

std::vector<std::string_view> words_of(const Option& option, std::string_view trainer) {
  if (option.type != OptionType::choice && option.type != OptionType::list) return {};
  std::vector<std::string_view> words = split_words(accepted_of(option, trainer), '|');
  if (option.unsupported.empty()) return words;
  const std::vector<std::string_view> taken = split_words(option.no_ops, '|');
  std::erase_if(words, [&](std::string_view word) {
    return word != default_of(option, trainer) && !contains(taken, word);
  });
  return words;
}

std::string in_small_letters(std::string_view text) {
  std::string out(text);
  for (char& c : out)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return out;
}

std::string without_underscores(std::string_view text) {
  const auto digit = [](char c) { return c >= '0' && c <= '9'; };
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '_' && i > 0 && i + 1 < text.size() && digit(text[i - 1]) && digit(text[i + 1])) continue;
    out += text[i];
  }
  return out;
}

bool is_list_somewhere(const Option& option) {
  const std::span<const TrainerValues> all = trainer_values();
  return std::ranges::any_of(all, [&](const TrainerValues& values) {
    return values.name == option.name && values.default_value.starts_with('[');
  });
}

bool trainer_accepts(const Option& option, std::string_view trainer, std::string_view value) {
  if (option.nullable && value == "null") return true;
  const bool has_reader =
      option.type == OptionType::text || option.type == OptionType::list || option.type == OptionType::map;
  if (has_reader && accepted_of(option, trainer) == option.accepted) return true;
  const std::vector<std::string_view> words = split_words(accepted_of(option, trainer), '|');
  const std::optional<double> number = base::parse_double(value);
  return words.empty() || std::ranges::any_of(words, [&](std::string_view word) {
           return is_range(word) ? number && in_range(word, *number) : word == value;
         });
}

Range parse_range(std::string_view range) {
  const auto number = [](std::string_view text) { return base::parse_double(text).value_or(NAN); };
  Range out;
  if (range.starts_with(kBytes)) {
    out = parse_range(range.substr(kBytes.size()));
    out.bytes = true;
  } else if (range.starts_with('>')) {
    out.low_in = range.starts_with(">=");
    out.low = number(trimmed(range.substr(out.low_in ? 2 : 1)));
  } else {
    const std::vector<std::string_view> ends = split_words(range.substr(1, range.size() - 2), ',');
    out = {number(ends.at(0)), number(ends.at(1)), range.front() == '[', range.back() == ']'};
  }
  return out;
}

base::Json typed_value(const Option& option, const std::string& value) {
  if (value == "null") return nullptr;
  switch (option.type) {
    case OptionType::boolean:
      return value == "true";
    case OptionType::integer:
      if (const std::optional<int64_t> number = base::parse_int64(value)) return *number;
      return value;
    case OptionType::number:
      if (value.starts_with('[')) break;
      if (const std::optional<double> number = base::parse_double(value)) return *number;
      return value;
    case OptionType::choice:
      if (value.starts_with('[')) break;
      return value;
    case OptionType::text:
      return value;
    case OptionType::list:
    case OptionType::map:
      break;
  }
  return base::Json::parse(value);
}

std::string shown(std::string_view value) {
  constexpr size_t kLongest = 80;
  std::string text;
  for (const char c : value.substr(0, kLongest)) text += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  if (value.size() > kLongest) {
    while (!text.empty() && (static_cast<unsigned char>(text.back()) & 0xC0) == 0x80) text.pop_back();
    if (!text.empty() && static_cast<unsigned char>(text.back()) >= 0xC0) text.pop_back();
    text += "...";
  }
  return "'" + text + "'";
}

std::string as_text(const base::Json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

std::optional<bool> parse_bool(std::string_view text) {
  const std::string word = in_small_letters(text);
  for (const std::string_view yes : {"true", "yes", "on", "1", "y", "t"})
    if (word == yes) return true;
  for (const std::string_view no : {"false", "no", "off", "0", "n", "f"})
    if (word == no) return false;
  return std::nullopt;
}

std::string canonical_value(const Option& option, std::string_view key, std::string_view text,
                            std::string_view trainer) {
  if (option.nullable && is_null(option, text)) return "null";
  switch (option.type) {
    case OptionType::boolean: {
      const std::optional<bool> flag = parse_bool(text);
      if (!flag) fail_value(option, key, text);
      return *flag ? "true" : "false";
    }
    case OptionType::integer:
    case OptionType::number:
      if (text.find_first_of("[, ") != text.npos && is_list_somewhere(option))
        return canonical_numbers(option, key, text, trainer);
      return canonical_number(option, key, text, trainer);
    case OptionType::choice:
      return canonical_choice(option, key, text, trainer);
    case OptionType::list:
      return canonical_list(option, key, text);
    case OptionType::map:
      return canonical_map(option, key, text);
    case OptionType::text:
      break;
  }
  return std::string(text);
}

std::string check_support(const Option& option, std::string_view key, const std::string& value) {
  if (option.unsupported.empty() && option.warning.empty()) return {};
  const std::string part = uncovered(option, value);
  if (part.empty()) return {};
  if (!option.unsupported.empty()) fail_key(key, "{}: {} is refused: {}", key, part, option.unsupported);
  return fmt::format("{}: {}", key, option.warning);
}

}  // namespace trl::config
