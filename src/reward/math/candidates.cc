#include "reward/math/candidates.h"

#include <algorithm>

#include "config/table/option_value.h"
#include "reward/math/characters.h"

namespace trl::reward::math {

namespace {

constexpr size_t kMaxWords = 64;          // of one kind, from the right
constexpr size_t kNear = 50, kFar = 100;  // characters between the words and the answer

bool is_inside_character(char c) { return (static_cast<unsigned char>(c) & 0xc0) == 0x80; }

}  // namespace

Candidates::Candidates(std::string_view text, bool numbers)
    : text_(text), small_(config::in_small_letters(text)), numbers_(numbers), regions_(text) {}

std::vector<size_t> Candidates::ends_of(std::string_view words) const {
  std::vector<size_t> out;
  for (size_t at = small_.rfind(words); at != kNone && out.size() < kMaxWords;
       at = small_.rfind(words, at - 1)) {
    out.push_back(at + words.size());
    if (at == 0) break;
  }
  std::ranges::reverse(out);
  return out;
}

size_t Candidates::after_spaces(size_t place) const {
  while (place < text_.size() && is_space(text_[place])) ++place;
  return place;
}

size_t Candidates::add_formula(std::vector<Candidate>& out, size_t begin, size_t place) {
  std::optional<Region> region = regions_.at(place, false);
  if (!region) return 0;
  out.push_back({begin, region->end, std::move(region->formulas), {}, {}});
  return out.back().end;
}

size_t Candidates::add_number(std::vector<Candidate>& out, size_t begin, size_t place, bool before_equals) {
  if (!numbers_) return 0;
  for (const auto find : {plain_arithmetic_at, plain_number_at}) {
    std::optional<PlainValue> value = find(text_, place);
    if (!value) continue;
    const size_t next = after_spaces(value->end);
    if (!before_equals && next < text_.size() && text_[next] == '=') continue;
    out.push_back({begin, value->end, {}, {}, std::move(*value)});
    return out.back().end;
  }
  return 0;
}

std::vector<Candidate> Candidates::hoped() {
  std::vector<Candidate> found;
  for (const size_t end : ends_of("final answer is")) {
    const size_t colon = end + (text_.substr(end).starts_with(':') ? 1 : 0);
    const size_t place = after_spaces(colon);
    const size_t space = place > colon ? place - 1 : place;  // a number begins with one, and [ ... ] too
    if (add_formula(found, end, place) == 0) add_formula(found, end, space);
    add_number(found, end, space);
  }
  std::erase_if(found, [&](const Candidate& candidate) {
    size_t at = candidate.end;
    at += text_.substr(at).starts_with('.') ? 1 : 0;
    at += at < text_.size() && is_space(text_[at]) ? 1 : 0;
    return !text_.substr(at).starts_with("I hope");
  });
  return found;
}

std::vector<Candidate> Candidates::final_answer() {
  std::vector<Candidate> out;
  size_t taken = 0;
  for (const size_t begin : ends_of("final answer")) {
    if (begin < taken) continue;
    size_t characters = 0, spaces = 0;
    const size_t line = std::min(text_.find('\n', begin), text_.size());
    for (size_t at = begin; at < text_.size() && characters - spaces <= kFar; ++at) {
      characters += is_inside_character(text_[at]) ? 0 : 1;
      spaces = is_space(text_[at]) ? spaces + 1 : 0;
      if (spaces == 0 || !std::string_view(small_).substr(at + 1).starts_with("is")) continue;
      const size_t colon = at + 3 + (text_.substr(at + 3).starts_with(':') ? 1 : 0);
      const size_t place = after_spaces(colon);
      taken = add_formula(out, begin, place);
      if (taken == 0 && place > colon) taken = add_formula(out, begin, place - 1);
      if (taken == 0 && at + 1 - spaces <= line) taken = add_number(out, begin, colon);
      if (taken != 0) break;
    }
  }
  return out;
}

std::vector<Candidate> Candidates::boxed() {
  std::vector<Candidate> out;
  for (Region& region : regions_.all(true))
    out.push_back({region.begin, region.end, std::move(region.formulas), {}, {}});
  constexpr std::string_view kBox = "\\boxed{";
  const size_t begin = text_.find(kBox);
  const size_t end = text_.rfind('}');
  if (begin != kNone && end != kNone && end > begin + kBox.size())
    out.push_back({begin, end + 1, {}, text_.substr(begin, end + 1 - begin), {}});
  return out;
}

size_t Candidates::add_first_formula(std::vector<Candidate>& out, size_t begin) {
  for (size_t at = begin, characters = 0; at < text_.size() && characters <= kNear; ++at) {
    if (is_inside_character(text_[at])) continue;
    ++characters;
    if (const size_t end = add_formula(out, begin, at); end != 0) return end;
  }
  return 0;
}

// Takes the number after the last "=" of the line if a space is between them, or else the first number.
size_t Candidates::add_first_number(std::vector<Candidate>& out, size_t begin) {
  if (!numbers_) return 0;
  const size_t line = std::min({text_.find('\n', begin), text_.size(), begin + kFar + 1});
  for (size_t at = line; at-- > begin;) {
    const size_t place = after_spaces(at + 1);
    if (text_[at] != '=' || place == at + 1) continue;
    if (const size_t end = add_number(out, begin, place - 1, false); end != 0) return end;
  }
  for (size_t at = begin, characters = 0; at < text_.size() && characters <= kNear; ++at) {
    if (is_inside_character(text_[at])) continue;
    ++characters;
    if (const size_t end = add_number(out, begin, at, false); end != 0) return end;
    if (text_[at] == '\n') return 0;
  }
  return 0;
}

std::vector<Candidate> Candidates::answer(bool colon) {
  std::vector<Candidate> out;
  size_t formulas_end = 0, numbers_end = 0;
  for (const size_t begin : ends_of(colon ? "answer:" : "answer")) {
    if (begin >= formulas_end) formulas_end = std::max(formulas_end, add_first_formula(out, begin));
    if (begin >= numbers_end) numbers_end = std::max(numbers_end, add_first_number(out, begin));
  }
  return out;
}

std::vector<Candidate> Candidates::anywhere() {
  std::vector<Candidate> out;
  for (Region& region : regions_.all(false))
    out.push_back({region.begin, region.end, std::move(region.formulas), {}, {}});
  for (PlainValue& value : plain_values(text_)) {
    const size_t begin = value.begin, end = value.end;
    out.push_back({begin, end, {}, {}, std::move(value)});
  }
  return out;
}

}  // namespace trl::reward::math
