#include "text/constraint/json_bounds.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>

#include "text/constraint/json_tree.h"

namespace trl::text {

namespace {

constexpr uint32_t kEndless = PatternTree::kUnlimited;

PatternTree digit_between(char low, char high) {
  if (low > high) return json_nothing();
  return PatternTree::of({static_cast<char32_t>(low), static_cast<char32_t>(high)});
}
PatternTree any_digits(size_t least, uint32_t most) {
  return PatternTree::repeat(digit_between('0', '9'), static_cast<uint32_t>(least), most);
}
PatternTree zeros(uint32_t least) { return PatternTree::repeat(digit_between('0', '0'), least, kEndless); }
PatternTree in_turn(PatternTree a, PatternTree b) {
  std::vector<PatternTree> parts;
  parts.push_back(std::move(a));
  parts.push_back(std::move(b));
  return PatternTree::sequence(std::move(parts));
}

// Digits that a text has so far in common with: a bound, or null.
struct DigitLimits {
  const JsonBound *low, *high;
};

// Returns the patterns of a next digit within the remaining limits, each followed by rest(limits).
template <class Rest>
PatternTree next_digit(const DigitLimits& limits, char low, char high, const Rest& rest) {
  std::vector<PatternTree> forms;
  if (limits.low != nullptr && limits.high != nullptr && low == high)
    return in_turn(digit_between(low, low), rest(limits));
  if (limits.low != nullptr && low <= high)
    forms.push_back(in_turn(digit_between(low, low), rest({limits.low, nullptr})));
  if (limits.high != nullptr && low <= high)
    forms.push_back(in_turn(digit_between(high, high), rest({nullptr, limits.high})));
  const char first = static_cast<char>(low + (limits.low != nullptr ? 1 : 0));
  const char last = static_cast<char>(high - (limits.high != nullptr ? 1 : 0));
  if (first <= last) forms.push_back(in_turn(digit_between(first, last), rest({nullptr, nullptr})));
  return PatternTree::choice(std::move(forms));
}

// The digits from place i on of integers that have as many as the limits.
PatternTree whole_from(size_t i, size_t size, const DigitLimits& limits) {
  if (limits.low == nullptr && limits.high == nullptr)
    return any_digits(size - i, static_cast<uint32_t>(size - i));
  if (i == size) {
    const bool out =
        (limits.low != nullptr && limits.low->open) || (limits.high != nullptr && limits.high->open);
    return out ? json_nothing() : PatternTree();
  }
  return next_digit(limits, limits.low != nullptr ? limits.low->whole[i] : '0',
                    limits.high != nullptr ? limits.high->whole[i] : '9',
                    [&](const DigitLimits& left) { return whole_from(i + 1, size, left); });
}

// Integers >= 0; high: null is none. Fractions are not read.
PatternTree whole_between(const JsonBound& low, const JsonBound* high) {
  const size_t least = low.whole.size();
  const auto longer = [](size_t digits, uint32_t most) {
    return in_turn(digit_between('1', '9'), any_digits(digits - 1, most));
  };
  std::vector<PatternTree> forms;
  if (high == nullptr) {
    forms.push_back(whole_from(0, least, {&low, nullptr}));
    forms.push_back(longer(least + 1, kEndless));
    return PatternTree::choice(std::move(forms));
  }
  const size_t most = high->whole.size();
  if (most < least) return json_nothing();
  if (most == least) return whole_from(0, least, {&low, high});
  forms.push_back(whole_from(0, least, {&low, nullptr}));
  if (most > least + 1) forms.push_back(longer(least + 1, static_cast<uint32_t>(most) - 2));
  const JsonBound power{.whole = "1" + std::string(most - 1, '0')};
  forms.push_back(whole_from(0, most, {&power, high}));
  return PatternTree::choice(std::move(forms));
}

// The digits from place i on behind the point. may_end: a digit is before it.
PatternTree fraction_from(size_t i, const DigitLimits& limits, bool may_end) {
  const uint32_t least = may_end ? 0 : 1;
  const auto [low, high] = limits;
  if (low == nullptr && high == nullptr) return any_digits(least, kEndless);
  const bool low_over = low == nullptr || i >= low->fraction.size();
  const bool high_over = high == nullptr || i >= high->fraction.size();
  if (low_over && high_over) {  // all further digits of both are zeros
    if (high != nullptr) return high->open || (low != nullptr && low->open) ? json_nothing() : zeros(least);
    return low->open ? in_turn(zeros(0), in_turn(digit_between('1', '9'), any_digits(0, kEndless)))
                     : any_digits(least, kEndless);
  }
  PatternTree more = next_digit(limits, low == nullptr || low_over ? '0' : low->fraction[i],
                                high == nullptr ? '9'
                                : high_over     ? '0'
                                                : high->fraction[i],
                                [&](const DigitLimits& left) { return fraction_from(i + 1, left, true); });
  const bool ends = may_end && (low == nullptr || (low_over && !low->open)) &&
                    (high == nullptr || !high_over || !high->open);
  if (!ends) return more;
  std::vector<PatternTree> forms(1);
  forms.push_back(std::move(more));
  return PatternTree::choice(std::move(forms));
}

// Returns what may follow the whole number of the limits: nothing, or a fraction.
PatternTree fraction_between(const DigitLimits& limits) {
  const auto [low, high] = limits;
  std::vector<PatternTree> forms;
  const bool low_allows = low == nullptr || (low->fraction.empty() && !low->open);
  const bool high_allows = high == nullptr || !high->fraction.empty() || !high->open;
  if (low_allows && high_allows) forms.emplace_back();
  forms.push_back(in_turn(PatternTree::literal("."), fraction_from(0, limits, false)));
  return PatternTree::choice(std::move(forms));
}

bool is_less(const JsonBound& a, const JsonBound& b) {  // by the whole numbers
  return a.whole.size() != b.whole.size() ? a.whole.size() < b.whole.size() : a.whole < b.whole;
}

// Numbers >= 0. high: null is none.
PatternTree magnitude_between(const JsonBound& low, const JsonBound* high, bool integers) {
  if (integers) {
    JsonBound above = low;
    above.open |= !low.fraction.empty();
    if (high == nullptr) return whole_between(above, nullptr);
    JsonBound below = *high;
    below.open &= high->fraction.empty();
    return whole_between(above, &below);
  }
  if (high != nullptr && is_less(*high, low)) return json_nothing();
  if (high != nullptr && high->whole == low.whole)
    return in_turn(PatternTree::literal(low.whole), fraction_between({&low, high}));
  const JsonBound above{.whole = low.whole, .open = true};
  std::vector<PatternTree> forms;
  forms.push_back(in_turn(PatternTree::literal(low.whole), fraction_between({&low, nullptr})));
  if (high == nullptr) {
    forms.push_back(in_turn(whole_between(above, nullptr), fraction_between({nullptr, nullptr})));
  } else {
    const JsonBound below{.whole = high->whole, .open = true};
    forms.push_back(in_turn(whole_between(above, &below), fraction_between({nullptr, nullptr})));
    forms.push_back(in_turn(PatternTree::literal(high->whole), fraction_between({nullptr, high})));
  }
  return PatternTree::choice(std::move(forms));
}

PatternTree between_bounds(const std::optional<JsonBound>& least, const std::optional<JsonBound>& most,
                           bool integers) {
  std::vector<PatternTree> forms;
  if (!most || !most->negative) {
    const JsonBound low = least && !least->negative ? *least : JsonBound{};
    forms.push_back(magnitude_between(low, most ? &*most : nullptr, integers));
  }
  if (!least || least->negative) {
    JsonBound low = most && most->negative ? *most : JsonBound{};
    if (most && most->is_zero()) low.open = most->open;
    forms.push_back(
        in_turn(PatternTree::literal("-"), magnitude_between(low, least ? &*least : nullptr, integers)));
  }
  return PatternTree::choice(std::move(forms));
}

}  // namespace

std::optional<JsonBound> json_bound(const base::Json& value, bool open) {
  if (!value.is_number()) return std::nullopt;
  std::string text = value.is_number_float() ? fmt::format("{}", value.get<double>()) : value.dump();
  if (text.find('e') != text.npos && std::abs(value.get<double>()) > 1)
    text = fmt::format("{:.0f}", value.get<double>());
  JsonBound bound{.open = open};
  if (text.starts_with('-')) {
    bound.negative = true;
    text.erase(0, 1);
  }
  if (text.find_first_not_of("0123456789.") != text.npos) return std::nullopt;
  const size_t point = std::min(text.find('.'), text.size());
  bound.whole = text.substr(0, point);
  if (point < text.size()) bound.fraction = text.substr(point + 1);
  bound.fraction.erase(bound.fraction.find_last_not_of('0') + 1);
  if (bound.is_zero()) bound.negative = false;
  return bound;
}

PatternTree json_number_between(const std::optional<JsonBound>& least, const std::optional<JsonBound>& most) {
  return between_bounds(least, most, false);
}

PatternTree json_integer_between(const std::optional<JsonBound>& least,
                                 const std::optional<JsonBound>& most) {
  return between_bounds(least, most, true);
}

}  // namespace trl::text
