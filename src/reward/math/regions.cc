#include "reward/math/regions.h"

#include <algorithm>
#include <array>

#include "reward/math/characters.h"

namespace trl::reward::math {

namespace {

constexpr size_t kJoinedFormulas = 6;

}  // namespace

Regions::Regions(std::string_view text)
    : text_(text),
      two_dollars_(text, "$$", false),
      dollar_(text, "$", false),
      bracket_(text, "\\]", false),
      parenthesis_(text, "\\)", false),
      line_(text, "\n"),
      square_(text, "]"),
      box_(text, "\\boxed{"),
      brace_(text, "}") {}

size_t Regions::after_spaces(size_t place) const {
  while (place < text_.size() && is_space(text_[place])) ++place;
  return place;
}

bool Regions::holds_box(size_t begin, size_t end) {
  constexpr size_t kLength = 7;  // of \boxed{
  const size_t box = box_.from(begin);
  return box < end && brace_.from(box + kLength + 1) < end;
}

std::optional<Regions::Found> Regions::delimited(size_t begin, NextFinder& close, size_t close_length,
                                                 bool one_line, bool boxed) {
  const size_t end = close.from(begin);
  if (end == kNone || end == begin) return std::nullopt;
  if (one_line && line_.from(begin) < end) return std::nullopt;
  if (boxed && !holds_box(begin, end)) return std::nullopt;
  return Found{{text_.substr(begin, end - begin)}, end + close_length};
}

std::optional<Regions::Found> Regions::dollars(size_t place, bool boxed) {
  if (place > 0 && text_[place - 1] == '\\') return std::nullopt;
  if (text_.substr(place).starts_with("$$"))
    if (std::optional<Found> found = delimited(place + 2, two_dollars_, 2, false, boxed)) return found;
  if (place > 0 && is_digit(text_[place - 1])) return std::nullopt;  // 5$ is a price
  return delimited(place + 1, dollar_, 1, true, boxed);
}

std::optional<Regions::Found> Regions::brackets(size_t place, bool boxed) {
  if (place + 1 >= text_.size() || text_[place + 1] != '[') return std::nullopt;
  std::optional<Found> found = delimited(place + 2, square_, 1, true, boxed);
  const bool closed = found && found->end < text_.size() && is_space(text_[found->end]);
  if (!closed || found->formula.latex.find('[') != kNone) return std::nullopt;
  ++found->end;
  return found;
}

// Takes a fraction of two numbers without delimiters, such as -\frac{1}{2}.
std::optional<Regions::Found> Regions::fraction(size_t place) const {
  size_t at = place + (text_[place] == '-' ? 1 : 0);
  if (!text_.substr(at).starts_with("\\frac{")) return std::nullopt;
  at += 5;
  const auto digits = [&] {
    const size_t from = at;
    while (at < text_.size() && is_digit(text_[at])) ++at;
    return at > from;
  };
  for (int part = 0; part < 2; ++part) {
    if (at >= text_.size() || text_[at] != '{') return std::nullopt;
    ++at;
    if (at < text_.size() && text_[at] == '-') ++at;
    if (!digits()) return std::nullopt;
    if (at < text_.size() && (text_[at] == '.' || text_[at] == ',')) {
      ++at;
      if (!digits()) return std::nullopt;
    }
    if (at >= text_.size() || text_[at] != '}') return std::nullopt;
    ++at;
  }
  return Found{{text_.substr(place, at - place)}, at};
}

size_t Regions::after_percent(size_t place, bool& percent) const {
  constexpr auto kWords = std::to_array<std::string_view>(
      {"\\%", "%", "percentage", "percent", "Percentage", "Percent", "pct", "Pct"});
  const size_t at = after_spaces(place);
  for (const std::string_view word : kWords) {
    if (!text_.substr(at).starts_with(word)) continue;
    percent = true;
    return at + word.size();
  }
  return at;
}

std::optional<Regions::Found> Regions::one(size_t place, bool boxed) {
  const std::string_view rest = text_.substr(place);
  const bool escaped = place > 0 && text_[place - 1] == '\\';
  std::optional<Found> found;
  if (rest.starts_with('$'))
    found = dollars(place, boxed);
  else if (!escaped && rest.starts_with("\\["))
    found = delimited(place + 2, bracket_, 2, false, boxed);
  else if (!escaped && rest.starts_with("\\("))
    found = delimited(place + 2, parenthesis_, 2, true, boxed);
  else if (!rest.empty() && is_space(rest[0]))
    found = brackets(place, boxed);
  else if (!boxed && !rest.empty() && (rest[0] == '-' || rest[0] == '\\'))
    found = fraction(place);
  if (found) found->end = after_percent(found->end, found->formula.percent);
  return found;
}

std::optional<Region> Regions::at(size_t place, bool boxed) {
  std::optional<Found> found = one(place, boxed);
  if (!found) return std::nullopt;
  Region region{place, found->end, {found->formula}};
  while (region.formulas.size() < kJoinedFormulas) {
    size_t next = after_spaces(region.end);
    const bool comma = text_.substr(next).starts_with(',');
    next += comma ? 1 : 0;
    const std::string_view word = text_.substr(next);
    const bool joined = word.starts_with("and") || word.starts_with("or");
    if (!comma && !joined) break;
    next += !joined ? 0 : word[0] == 'a' ? 3 : 2;
    // a formula in brackets begins with a space
    found = one(after_spaces(next), boxed);
    if (!found && after_spaces(next) > next) found = one(after_spaces(next) - 1, boxed);
    if (!found) break;
    region.formulas.push_back(found->formula);
    region.end = found->end;
  }
  return region;
}

std::vector<Region> Regions::all(bool boxed) {
  std::vector<Region> out;
  for (size_t place = 0; place < text_.size();) {
    std::optional<Region> region = at(place, boxed);
    place = region ? region->end : place + 1;
    if (region) out.push_back(std::move(*region));
  }
  return out;
}

}  // namespace trl::reward::math
