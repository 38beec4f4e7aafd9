#include "reward/math/plain_numbers.h"

#include <algorithm>
#include <array>
#include <utility>

#include "reward/math/characters.h"

namespace trl::reward::math {

namespace {

constexpr size_t kMaxArithmetic = 256;
constexpr std::string_view kOperators = "+-*/^()";
constexpr auto kSigns = std::to_array<std::string_view>({"\u00d7", "\u00f7"});  // operators beyond ASCII
constexpr auto kCurrencies =
    std::to_array<std::string_view>({"$", "\u20ac", "\u00a3", "\u00a5", "\u20b9", "\u20bd", "\u20a9",
                                     "\u20ab", "\u20aa", "\u20bf", "\u00a2"});

// Returns the place after a start that a value may have: nothing, a space or "=", and then "**".
std::optional<size_t> after_start(std::string_view text, size_t place) {
  if (place >= text.size()) return std::nullopt;
  const bool separator = is_space(text[place]) || text[place] == '=';
  if (!separator && place > 0) return std::nullopt;
  const size_t at = place + (separator ? 1 : 0);
  return at + (text.substr(at).starts_with("**") ? 2 : 0);
}

size_t digits_end(std::string_view text, size_t at) {
  while (at < text.size() && is_digit(text[at])) ++at;
  return at;
}

// Returns the end of 1,234,567 or 1 234 567; `at` if there are no groups of three.
size_t grouped_end(std::string_view text, size_t at) {
  const size_t first = digits_end(text, at);
  if (first == at || text[at] == '0') return at;
  size_t end = std::min(first, at + 3);
  const auto group_follows = [&] {
    return end < text.size() && (text[end] == ',' || text[end] == ' ') &&
           digits_end(text, end + 1) >= end + 4;
  };
  if (!group_follows()) return at;
  while (group_follows()) end += 4;
  return end;
}

size_t percent_end(std::string_view text, size_t at, bool& percent) {
  constexpr auto kWords =
      std::to_array<std::string_view>({"%", "percentage", "percent", "Percentage", "Percent", "pct", "Pct"});
  size_t next = at;
  while (next < text.size() && is_space(text[next])) ++next;
  for (const std::string_view word : kWords) {
    if (!text.substr(next).starts_with(word)) continue;
    percent = true;
    return next + word.size();
  }
  return at;
}

std::string plain_digits(std::string_view integer, std::string_view decimals, bool negative) {
  std::string out(negative ? "-" : "");
  const size_t begin = out.size();
  for (const char c : integer)
    if (is_digit(c) && (c != '0' || out.size() > begin)) out += c;
  if (out.size() == begin) out += '0';
  if (!decimals.empty()) out.append(".").append(decimals);
  return out;
}

size_t operator_length(std::string_view text) {
  if (kOperators.find(text[0]) != std::string_view::npos) return 1;
  const auto found =
      std::ranges::find_if(kSigns, [&](std::string_view sign) { return text.starts_with(sign); });
  return found == kSigns.end() ? 0 : found->size();
}

// Returns whether arithmetic may end here: "**" may follow, then punctuation, a space or the end.
bool ends_here(std::string_view rest) {
  if (rest.starts_with("**")) rest.remove_prefix(2);
  return rest.empty() || is_space(rest[0]) ||
         std::string_view(".,:)$").find(rest[0]) != std::string_view::npos;
}

}  // namespace

std::optional<PlainValue> plain_number_at(std::string_view text, size_t place) {
  std::optional<size_t> start = after_start(text, place);
  if (!start) return std::nullopt;
  size_t at = *start;
  const auto currency = std::ranges::find_if(
      kCurrencies, [&](std::string_view sign) { return text.substr(at).starts_with(sign); });
  if (currency != kCurrencies.end()) at += currency->size();
  const bool negative = text.substr(at).starts_with('-');
  at += negative ? 1 : 0;
  const size_t grouped = grouped_end(text, at);
  const size_t end = grouped > at ? grouped : digits_end(text, at);
  if (end == at && (negative || !text.substr(at).starts_with('.'))) return std::nullopt;
  const bool comma = grouped == at && end > at && text.substr(end).starts_with(',');  // 3,5 is 3.5
  const bool point = text.substr(end).starts_with('.') || comma;
  const size_t decimals = point ? digits_end(text, end + 1) : end;
  const bool has_decimals = point && decimals > end + 1;
  if (end == at && !has_decimals) return std::nullopt;
  PlainValue out{.begin = place, .end = has_decimals ? decimals : end};
  const std::string_view after = has_decimals ? text.substr(end + 1, decimals - end - 1) : std::string_view();
  out.text = plain_digits(text.substr(at, end - at), after, negative);
  out.end = percent_end(text, out.end, out.percent);
  return out;
}

std::optional<PlainValue> plain_arithmetic_at(std::string_view text, size_t place) {
  const std::optional<size_t> start = after_start(text, place);
  if (!start) return std::nullopt;
  size_t at = *start;
  for (const std::string_view sign : {"-", "(", "-"})
    if (text.substr(at).starts_with(sign)) ++at;
  if (at >= text.size() || !is_digit(text[at])) return std::nullopt;
  const size_t limit = std::min(text.size(), *start + kMaxArithmetic);
  size_t first_operator = 0, end = 0;
  for (size_t i = at + 1; i < limit;) {
    const size_t sign = operator_length(text.substr(i));
    if (sign == 0 && !is_digit(text[i]) && text[i] != '.' && !is_space(text[i])) break;
    const size_t length = std::max<size_t>(sign, 1);
    if (first_operator != 0 && i >= first_operator && ends_here(text.substr(i + length))) end = i + length;
    if (sign != 0 && first_operator == 0) first_operator = i + length;
    i += length;
  }
  if (end == 0) return std::nullopt;
  std::string_view found = trimmed(text.substr(*start, end - *start));
  while (found.ends_with('.')) found.remove_suffix(1);  // the end of a sentence
  return PlainValue{place, end, std::string(found), false};
}

std::vector<PlainValue> plain_values(std::string_view text) {
  std::vector<PlainValue> out;
  for (size_t place = 0; place < text.size();) {
    std::optional<PlainValue> value = plain_number_at(text, place);
    place = value ? value->end : place + 1;
    if (value) out.push_back(std::move(*value));
  }
  size_t next_operator = 0;
  for (size_t place = 0; place < text.size();) {
    if (next_operator <= place) next_operator = text.find_first_of("+-*/^()\xc3", place + 1);
    if (next_operator == kNone) break;
    const bool near = next_operator - place < kMaxArithmetic;
    std::optional<PlainValue> value = near ? plain_arithmetic_at(text, place) : std::nullopt;
    place = value ? value->end : place + 1;
    if (value) out.push_back(std::move(*value));
  }
  return out;
}

}  // namespace trl::reward::math
