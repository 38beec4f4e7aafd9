// Ids that may follow a text, against recorded ones, and byte by byte over whole vocabularies.
#include <gtest/gtest.h>

#include <random>

#include "base/error.h"
#include "support/golden.h"
#include "text/constraint/pattern_parser.h"
#include "text/constraint/token_constraint.h"

namespace trl::text {
namespace {

constexpr const char* kRecorded = "sampling/regex.json";

std::shared_ptr<const TokenTrie> trie_of(const std::string& folder) {
  return std::make_shared<const TokenTrie>(*Tokenizer::from_files(test::golden_path(folder)));
}

TokenConstraint constraint_of(const std::string& pattern, const std::shared_ptr<const TokenTrie>& trie) {
  return {parse_pattern(pattern, "generate.regex"), "generate.regex", trie};
}

std::vector<int32_t> ids_of(const AllowedIds& allowed, size_t vocabulary) {
  std::vector<int32_t> ids;
  for (int32_t id = 0; id < static_cast<int32_t>(vocabulary); ++id)
    if (allowed.contains(id)) ids.push_back(id);
  return ids;
}

TEST(ConstraintGolden, AllowsTheRecordedIdsAfterEachPrefix) {
  TRL_NEED_GOLDEN(kRecorded);
  TRL_NEED_GOLDEN("models/qwen2/tokenizer.json");
  const auto trie = trie_of("models/qwen2");
  for (const base::Json& one : test::golden_json(kRecorded).at("cases")) {
    TokenConstraint constraint = constraint_of(one.at("pattern"), trie);
    for (const base::Json& step : one.at("steps")) {
      SCOPED_TRACE(one.at("pattern").dump() + " after " + step.at("prefix_hex").dump());
      Constraint::Place place = constraint.start();
      for (const int32_t id : step.at("prefix_ids").get<std::vector<int32_t>>())
        place = constraint.after(place, id);
      std::string_view why;
      const auto allowed = constraint.allowed(place, why);
      ASSERT_NE(allowed, nullptr) << why;
      EXPECT_EQ(allowed->end, step.at("matches"));
      EXPECT_EQ(ids_of(*allowed, trie->vocabulary()), step.at("allowed").get<std::vector<int32_t>>());
      EXPECT_EQ(constraint.is_over(place), allowed->end && allowed->empty());
    }
  }
}

TEST(ConstraintGolden, RefusesTheRecordedPatterns) {
  TRL_NEED_GOLDEN(kRecorded);
  for (const std::string pattern : test::golden_json(kRecorded).at("refused")) {
    try {
      parse_pattern(pattern, "generate.regex");
      FAIL() << pattern;
    } catch (const Error& error) {
      EXPECT_EQ(error.status(), Status::invalid_config);
      EXPECT_EQ(error.key(), "generate.regex");
      EXPECT_NE(error.message().find("accepted are literals"), error.message().npos) << error.message();
    }
  }
}

// Walks at random, and compares what may follow with each token's bytes through an automaton of its own.
void expect_walks(const std::shared_ptr<const TokenTrie>& trie, const std::string& pattern,
                  std::mt19937& random) {
  TokenConstraint constraint = constraint_of(pattern, trie);
  LazyDfa dfa(Automaton(parse_pattern(pattern, ""), ""));
  Constraint::Place place = constraint.start();
  uint32_t state = dfa.start(false)->number;
  for (int step = 0; step < 6; ++step) {
    std::string_view why;
    const auto allowed = constraint.allowed(place, why);
    ASSERT_NE(allowed, nullptr) << why;
    std::vector<int32_t> ids;
    const auto after = [&](int32_t id) {
      uint32_t here = state;
      for (const char byte : trie->bytes(id, step == 0))
        if (here != LazyDfa::kDead) here = dfa.next(here, static_cast<uint8_t>(byte));
      return here;
    };
    for (int32_t id = 0; id < static_cast<int32_t>(trie->vocabulary()); ++id)
      if (!trie->bytes(id, step == 0).empty() && after(id) != LazyDfa::kDead) ids.push_back(id);
    ASSERT_EQ(ids_of(*allowed, trie->vocabulary()), ids) << pattern << " step " << step;
    if (ids.empty()) return;
    const int32_t id = ids[random() % ids.size()];
    state = after(id);
    place = constraint.after(place, id);
  }
}

TEST(ConstraintGolden, WalksOfTheTrieAreThoseOfSingleTokensInEveryKindOfTokenizer) {
  std::mt19937 random(7);
  for (const char* const folder :
       {"tokenizers/bpe_qwen2", "tokenizers/bpe_llama3", "tokenizers/spm_style_bpe",
        "tokenizers/sentencepiece_unigram", "models/gpt2"}) {
    if (test::golden_path(folder).empty()) GTEST_SKIP() << "no recorded tokenizer: " << folder;
    std::shared_ptr<const TokenTrie> trie;
    try {
      trie = trie_of(folder);
    } catch (const Error& error) {  // a build without SentencePiece
      ASSERT_EQ(error.status(), Status::unsupported) << error.message();
      continue;
    }
    for (const char* const pattern :
         {"[a-z ]+", "\\w{2,9}", "[^\"]*", "(yes|no)+\\.", "\\d+(,\\d{3})*", "[^\"]{0,300}",
          "[a-z ]{18,24}\\.", "([a-z]{1,3} ?){20,40}", "(a?b?[c-z]?){60}", "((\\w{0,20} ){2}){3,30}!"})
      expect_walks(trie, pattern, random);
  }
}

}  // namespace
}  // namespace trl::text
