#include "reward/math/read.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "reward/math/boxed.h"
#include "reward/math/candidates.h"
#include "reward/math/characters.h"
#include "reward/math/clean.h"
#include "reward/math/equal.h"
#include "reward/math/parse.h"

namespace trl::reward::math {

namespace {

constexpr size_t kMaxTries = 16;  // of places that cannot be read

// Reads 1,234.5 and 0,111 as one number, if that is all of the text.
std::optional<Node> grouped_number(std::string_view text) {
  const bool negative = text.starts_with('-');
  std::string_view rest = text.substr(negative ? 1 : 0);
  const size_t first = rest.find(',');
  if (first == std::string_view::npos || first == 0 || first > 3) return std::nullopt;
  size_t digits = 0;
  bool decimals = false;
  for (size_t at = 0; at < rest.size(); ++at) {
    const bool ends = rest[at] == ',' || rest[at] == '.';
    if (!is_digit(rest[at]) && !ends) return std::nullopt;
    if (ends && at > first && digits != 3) return std::nullopt;
    if (ends && decimals) return std::nullopt;
    decimals = decimals || rest[at] == '.';
    digits = ends ? 0 : digits + 1;
  }
  if (digits == 0 || (!decimals && digits != 3)) return std::nullopt;
  std::string plain(rest);
  if (plain.starts_with('0')) std::ranges::replace(plain, ',', '.');
  std::optional<Number> number = parse_number(plain);
  if (!number) return std::nullopt;
  number->negative = negative;
  return number_node(*number);
}

// Returns the text after the last "=" of a = b = c; all of the text if it is a list or has fewer equal signs.
std::string_view last_side(std::string_view latex) {
  if (latex.find_first_of(",;") != std::string_view::npos) return latex;
  size_t count = 0, last = 0;
  for (size_t at = 0; at < latex.size(); ++at) {
    if (latex[at] != '=') continue;
    if (at > 0 && std::string_view("\\<!>").find(latex[at - 1]) != std::string_view::npos) continue;
    ++count;
    last = at;
  }
  return count < 2 ? latex : latex.substr(last + 1);
}

std::optional<Node> parse_formula(std::string_view clean, Dialect dialect) {
  if (std::optional<Node> number = grouped_number(clean)) return number;
  if (std::optional<Node> node = parse(clean, dialect)) return node;
  const std::string_view last = last_side(clean);
  return last.size() < clean.size() ? parse(trimmed(last), dialect) : std::nullopt;
}

Reading read_formula(std::string_view latex, bool percent, Dialect dialect) {
  if (latex.size() > kMaxAnswer) return {std::nullopt, std::string(latex)};
  Reading out;
  out.text = clean_latex(latex, dialect);
  out.value = parse_formula(out.text, dialect);
  if (out.value && percent) out.value = node_of(Kind::percent, {std::move(*out.value)});
  const bool repaired = dialect == Dialect::lenient && out.value && !parse_formula(out.text, Dialect::latex);
  if (repaired) out.text.clear();  // in a completion the same text is an error
  return out;
}

Reading read_formulas(const std::vector<Formula>& formulas, Dialect dialect) {
  std::vector<Reading> all;
  for (const Formula& formula : formulas)
    all.push_back(read_formula(boxed_contents(formula.latex), formula.percent, dialect));
  const bool readable =
      std::ranges::all_of(all, [](const Reading& reading) { return reading.value.has_value(); });
  if (all.size() == 1 || !readable) return std::move(all[0]);
  Reading out{node_of(Kind::finite_set, {}), {}};
  std::vector<Node>& elements = out.value->children;
  for (Reading& reading : all) {
    out.text += (out.text.empty() ? "" : " and ") + reading.text;
    if (reading.value->kind == Kind::finite_set)
      elements.insert(elements.end(), reading.value->children.begin(), reading.value->children.end());
    else
      elements.push_back(std::move(*reading.value));
  }
  if (elements.size() > kMaxElements) out.value.reset();
  return out;
}

Reading read_plain(const PlainValue& plain) {
  Reading out{parse(plain.text, Dialect::plain), plain.text};
  if (out.value && plain.percent) out.value = node_of(Kind::percent, {std::move(*out.value)});
  return out;
}

Reading read_candidate(const Candidate& candidate, Dialect dialect) {
  if (!candidate.formulas.empty()) return read_formulas(candidate.formulas, dialect);
  if (!candidate.boxed.empty()) return read_formula(last_boxed(candidate.boxed), false, dialect);
  return read_plain(candidate.plain);
}

void sort_from_right(std::vector<Candidate>& candidates) {
  std::ranges::stable_sort(candidates, [](const Candidate& a, const Candidate& b) {
    return a.end != b.end ? a.end > b.end : a.begin < b.begin;
  });
}

bool is_within(const Candidate& number, const Candidate& formula) {
  return !number.plain.text.empty() && number.begin >= formula.begin && number.end <= formula.end;
}

void append(std::vector<Candidate>& all, std::vector<Candidate> more) {
  all.insert(all.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

}  // namespace

std::optional<Reading> read_solution(std::string_view text) {
  Candidates places(text, true);
  std::optional<Reading> out;
  std::vector<Candidate> unread;  // formulas with commands; a number within one is not the answer
  for (int group = 0; group < 5; ++group) {
    std::vector<Candidate> found;
    if (group == 0) found = places.hoped();
    if (group == 1) found = places.final_answer();
    if (group == 1) append(found, places.boxed());
    if (group == 2 || group == 3) found = places.answer(group == 2);
    if (group == 4) found = places.anywhere();
    sort_from_right(found);
    for (size_t i = 0; i < std::min(found.size(), kMaxTries); ++i) {
      if (std::ranges::any_of(unread, [&](const Candidate& formula) { return is_within(found[i], formula); }))
        continue;
      Reading reading = read_candidate(found[i], Dialect::lenient);
      if (!out || out->text.empty()) out = {std::nullopt, reading.text};
      out->value = std::move(reading.value);
      if (out->value) return out;
      if (reading.text.find('\\') != kNone) unread.push_back(found[i]);
    }
  }
  return out && !out->text.empty() ? out : std::nullopt;
}

std::optional<Reading> read_completion(std::string_view text) {
  Candidates places(text, false);
  for (int group = 0; group < 4; ++group) {
    std::vector<Candidate> found;
    if (group == 0) found = places.hoped();
    if (group == 0) append(found, places.boxed());
    if (group == 1) found = places.final_answer();
    if (group >= 2) found = places.answer(group == 2);
    if (found.empty()) continue;
    sort_from_right(found);
    return read_candidate(found[0], Dialect::latex);
  }
  return std::nullopt;
}

bool same_reading(const Reading& solution, const Reading& completion) {
  if (!solution.text.empty() && solution.text == completion.text) return true;
  return solution.value && completion.value && same_answer(*solution.value, *completion.value);
}

}  // namespace trl::reward::math
