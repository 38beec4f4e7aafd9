// usage: constraint_bench --tokenizer DIR [--vocab N] [--seconds S]
// Measures a constraint: milliseconds until a pattern of 200 characters is ready, for its first mask and, on
// average and at most, for those of places along a text, and the microseconds that a known mask adds to the
// choice of a token, median on one thread.
#include <CLI/CLI.hpp>
#include <chrono>
#include <random>

#include "generate/choice.h"
#include "support/repeat.h"
#include "support/runs.h"
#include "text/constraint/pattern_parser.h"
#include "text/constraint/token_constraint.h"

namespace {

using namespace trl::bench;
using trl::engine::Sampling;
using trl::text::AllowedIds;
using trl::text::TokenConstraint;

constexpr double kMostMicroseconds = 50, kMostMilliseconds = 20;
constexpr size_t kRows = 8;  // more than a cache of the second level holds
constexpr const char* kLong =
    "(The (answer|result|value) (is|was) -?[0-9]{1,6}(\\.[0-9]{1,3})?( (meters|seconds|grams))?\\. )?"
    "\\w+(@\\w+\\.(com|org|net))?, [A-Z][a-z]{2,20} [^\"<>]{0,50}: (yes|no|maybe|unknown) "
    "\\d{4}-\\d{2}-\\d{2}!";
constexpr const char* kPatterns[] = {kLong,
                                     "(yes|no)",
                                     "[a-z ]+",
                                     "[^\"]*",
                                     "\\w+",
                                     "-?[0-9]+(\\.[0-9]+)?",
                                     "\"[^\"]{0,300}\"",
                                     "([A-Z][a-z]{1,20} ){3,60}\\.",
                                     ".*[aeiou].{20}[xyz]"};
constexpr int kPlaces = 60;

template <class Body>
double milliseconds(const Body& body) {
  const auto begin = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
}

double rounded(double value) { return std::round(value * 100) / 100; }

std::vector<std::vector<float>> rows_of(size_t vocab) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0, 2.2f);
  std::vector<std::vector<float>> rows(kRows, std::vector<float>(vocab));
  for (std::vector<float>& row : rows)
    for (float& logit : row) logit = normal(random);
  return rows;
}

// constraint: or null. Asks it each time, as the generator does.
double microseconds(const std::vector<std::vector<float>>& rows, TokenConstraint* constraint,
                    double seconds) {
  Sampling sampling;
  sampling.temperature = 0.8;
  const auto place = constraint != nullptr ? constraint->start() : nullptr;
  std::vector<double> all = repeat(seconds, [&] {
    for (const std::vector<float>& row : rows) {
      trl::engine::Token token;
      std::string_view why;
      std::shared_ptr<const AllowedIds> allowed;
      if (constraint != nullptr) allowed = constraint->allowed(place, why);
      trl::generate::choose_token(row, {}, 0, sampling, 0.5, token, allowed.get());
    }
  });
  std::ranges::nth_element(all, all.begin() + std::ssize(all) / 2);
  return all[all.size() / 2] / static_cast<double>(rows.size()) * 1e6;
}

struct Masks {  // in milliseconds
  double mean = 0, worst = 0;
};

// The masks at places of a text that were not seen before.
Masks next_masks(TokenConstraint& constraint, const trl::text::TokenTrie& trie) {
  std::mt19937 random(3);
  auto place = constraint.start();
  double sum = 0, worst = 0;
  int count = 0;
  for (; count < kPlaces && place != nullptr; ++count) {
    std::string_view why;
    std::shared_ptr<const AllowedIds> allowed;
    const double time = milliseconds([&] { allowed = constraint.allowed(place, why); });
    sum += time;
    worst = std::max(worst, time);
    if (allowed == nullptr) break;
    std::vector<int32_t> ids;
    for (int32_t id = 0; id < static_cast<int32_t>(trie.vocabulary()); ++id)
      if (allowed->contains(id) && trie.bytes(id, false).size() < 6) ids.push_back(id);
    if (ids.empty()) break;
    place = constraint.after(place, ids[random() % ids.size()]);
  }
  return {sum / std::max(count, 1), worst};
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("What constraints cost");
  std::string directory;
  size_t vocab = 151936;
  double seconds = 0.5;
  app.add_option("--tokenizer", directory, "directory of a tokenizer")->required();
  app.add_option("--vocab", vocab, "logits of a row")->check(CLI::Range(1, 10'000'000));
  app.add_option("--seconds", seconds, "for each number");
  CLI11_PARSE(app, argc, argv);
  const auto tokenizer = trl::text::Tokenizer::from_files(directory);
  std::shared_ptr<const trl::text::TokenTrie> trie;
  const double made = milliseconds([&] { trie = std::make_shared<const trl::text::TokenTrie>(*tokenizer); });
  print({{"trie_ms", rounded(made)}, {"ids", trie->vocabulary()}});
  const std::vector<std::vector<float>> rows = rows_of(vocab);
  const double plain = microseconds(rows, nullptr, seconds);
  bool fits = true;
  for (const char* const pattern : kPatterns) {
    std::unique_ptr<TokenConstraint> constraint;
    const double ready = milliseconds([&] {
      constraint =
          std::make_unique<TokenConstraint>(trl::text::parse_pattern(pattern, "regex"), "regex", trie);
    });
    std::string_view why;
    const double first = milliseconds([&] { constraint->allowed(constraint->start(), why); });
    const double added = microseconds(rows, constraint.get(), seconds) - plain;
    const Masks next = next_masks(*constraint, *trie);
    print({{"pattern", pattern},
           {"ready_ms", rounded(ready)},
           {"first_mask_ms", rounded(first)},
           {"next_masks_ms", rounded(next.mean)},
           {"worst_mask_ms", rounded(next.worst)},
           {"added_microseconds", rounded(added)}});
    fits = fits && added <= kMostMicroseconds && ready <= kMostMilliseconds;
  }
  return fits ? 0 : 1;
}
