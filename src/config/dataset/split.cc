#include "config/dataset/datasets.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/text/number.h"
#include "config/table/option_value.h"

namespace trl::config {

namespace {

constexpr std::string_view kPartialHundredth = "pct1_dropremainder";

// The unread rest of one part.
struct Rest {
  std::string_view key, split, text;

  [[noreturn]] void fail_split(std::string_view why) const {
    fail_key(key,
             "{}: the split {} is not accepted: {}; give a name, with [from:to] in rows or whole percent "
             "after it to select a part of the rows (train[:100], train[10%:20%], train[-5:]), or several of "
             "these joined by +",
             key, shown(split), why);
  }
  std::string_view until(std::string_view stops) {
    const size_t end = std::min(text.find_first_of(stops), text.size());
    const std::string_view taken = text.substr(0, end);
    text.remove_prefix(end);
    return taken;
  }
  bool take(char c) {
    if (!text.starts_with(c)) return false;
    text.remove_prefix(1);
    return true;
  }
};

// Parses Python's int: single underscores may separate digits.
std::optional<int64_t> parse_bound(Rest& rest, std::string_view text, bool& percent) {
  if (text.empty()) return std::nullopt;
  if (text.ends_with('%')) {
    percent = true;
    text.remove_suffix(1);
  }
  const std::string digits = without_underscores(text);
  const std::optional<int64_t> value = digits.starts_with('+') ? std::nullopt : base::parse_int64(digits);
  if (!value) rest.fail_split(fmt::format("{} is not a bound", shown(text)));
  return value;
}

void parse_slice(Rest& rest, SplitPart& part) {
  bool percent = false;
  part.from = parse_bound(rest, rest.until(":]"), percent);
  if (!rest.take(':')) rest.fail_split("a slice has the form [from:to]");
  part.to = parse_bound(rest, rest.until("]"), percent);
  if (!rest.take(']')) rest.fail_split("a bracket is not closed");
  part.percent = percent;
  for (const std::optional<int64_t>& bound : {part.from, part.to})
    if (percent && bound && (*bound > 100 || *bound < -100))
      rest.fail_split("a percentage is from -100 to 100");
}

void parse_rounding(Rest& rest, SplitPart& part) {
  const std::string_view rounding = rest.until(")");
  if (!rest.take(')')) rest.fail_split("a bracket is not closed");
  if (rounding != "closest" && rounding != kPartialHundredth)
    rest.fail_split(fmt::format("the rounding is closest or {}", kPartialHundredth));
  if (!part.percent) rest.fail_split("only percentages are rounded");
  part.drop_remainder = rounding == kPartialHundredth;
}

SplitPart parse_part(Rest rest) {
  SplitPart part;
  part.name = rest.until("[(");
  if (part.name.empty() || part.name.find_first_of(" \t") != std::string::npos)
    rest.fail_split("a name is missing, or has a space in it");
  if (rest.take('[')) parse_slice(rest, part);
  if (rest.take('(')) parse_rounding(rest, part);
  if (!rest.text.empty()) rest.fail_split(fmt::format("{} does not belong there", shown(rest.text)));
  return part;
}

int64_t hundredths(std::string_view key, const SplitPart& part, int64_t bound, int64_t rows) {
  if (!part.drop_remainder)
    return static_cast<int64_t>(std::nearbyint(static_cast<double>(bound * rows) / 100));
  if (rows < 100)
    fail_key(key, "{}: {} of {} of '{}' keeps none: a hundredth of fewer than 100 is rounded down to none",
             key, kPartialHundredth, base::quantity(rows, "row"), part.name);
  return bound * (rows / 100);
}

}  // namespace

std::vector<SplitPart> parse_split(std::string_view key, std::string_view split) {
  std::vector<SplitPart> parts;
  if (split.find_first_of("[+(") == std::string_view::npos) {
    parts.emplace_back().name = split;
    return parts;
  }
  for (std::string_view text = split;;) {
    const size_t plus = std::min(text.find('+'), text.size());
    parts.push_back(parse_part({key, split, text.substr(0, plus)}));
    if (plus == text.size()) break;
    text.remove_prefix(plus + 1);
  }
  for (const SplitPart& part : parts)
    if (parts.front().percent && part.percent && part.drop_remainder != parts.front().drop_remainder)
      Rest{key, split, {}}.fail_split("its parts are rounded in two ways");
  return parts;
}

RowRange rows_of(std::string_view key, const SplitPart& part, int64_t rows) {
  const auto place = [&](const std::optional<int64_t>& bound, int64_t otherwise) {
    if (!bound) return otherwise;
    const int64_t at = part.percent ? hundredths(key, part, *bound, rows) : *bound;
    return std::min(at < 0 ? std::max<int64_t>(rows + at, 0) : at, rows);
  };
  RowRange range{place(part.from, 0), place(part.to, rows)};
  range.to = std::max(range.from, range.to);
  return range;
}

}  // namespace trl::config
