// Completions whose text a constraint keeps to a pattern: alone and together, again after their blocks were
// given back, and continued.
#include <gtest/gtest.h>

#include <regex>

#include "base/error.h"
#include "generate/completions.h"
#include "support/golden.h"
#include "text/constraint/pattern_parser.h"
#include "text/constraint/token_constraint.h"
#include "text/tokenizer/tokenizer.h"

namespace trl::generate {
namespace {

using test::Completion;
using test::Completions;

class Constrained : public testing::Test {
 protected:
  void SetUp() override {
    TRL_NEED_GOLDEN("models/qwen2/model.safetensors");
    const std::string folder = test::golden_path("models/qwen2");
    model_ = model::Model::open(folder, "float32");
    tokenizer_ = text::Tokenizer::from_files(folder);
    trie_ = std::make_shared<const text::TokenTrie>(*tokenizer_);
    end_ = tokenizer_->special_id(tokenizer_->special().eos).value();
  }

  Request request_of(const std::string& pattern, int32_t prompt) const {
    Request request{.ids = {prompt, 7, 8}, .sampling = {}};
    request.sampling.max_new_tokens = 64;
    request.sampling.temperature = 1.5;
    request.sampling.own_end_ids = {end_};
    request.sampling.constraint = std::make_shared<text::TokenConstraint>(
        text::parse_pattern(pattern, "generate.regex"), "generate.regex", trie_);
    request.stream = static_cast<uint64_t>(prompt) * 1000;
    return request;
  }

  // One byte for each character, which std::regex takes a byte for: '~' for those beyond ASCII.
  static std::string of_characters(const std::string& text) {
    std::string out;
    for (const char c : text) {
      const auto byte = static_cast<unsigned char>(c);
      if (byte < 0x80 || byte >= 0xC0) out += byte < 0x80 ? c : '~';
    }
    return out;
  }

  void expect_match(const Completion& one, const std::string& pattern) const {
    const std::string text = tokenizer_->decode(one.ids, true);
    EXPECT_EQ(one.how, engine::Finish::stop_id) << text << " " << one.error;
    EXPECT_TRUE(std::regex_match(of_characters(text), std::regex(pattern)))
        << pattern << ": '" << text << "'";
  }

  std::unique_ptr<model::Model> model_;
  std::unique_ptr<text::Tokenizer> tokenizer_;
  std::shared_ptr<const text::TokenTrie> trie_;
  int32_t end_ = 0;
};

constexpr const char* kFinite[] = {"[A-Z][a-z]{2,6}( [a-z]{1,4}){0,3}\\.", "(yes|no|maybe)!{0,3}",
                                   "-?(0|[1-9][0-9]{0,8})(\\.[0-9]{1,4})?",
                                   "\\{\"name\": \"[^\"\\\\\n]{0,8}\", \"age\": [0-9]{1,3}\\}"};

TEST_F(Constrained, AThousandSampledCompletionsMatch) {
  size_t checked = 0;
  for (const char* const pattern : kFinite) {
    Generator generator(*model_, Limits{}, test::cache_of(*model_, CacheKind{at::kFloat}, 200));
    Completions got;
    for (int32_t prompt = 0; prompt < 10; ++prompt) {
      Request request = request_of(pattern, prompt);
      request.count = 25;
      generator.add(request);
    }
    test::run(generator, got);
    for (const auto& [number, one] : got.all) expect_match(one, pattern);
    checked += got.all.size();
  }
  EXPECT_EQ(checked, 1000u);
}

TEST_F(Constrained, TheyAreTheSameTogetherAndAfterTheirBlocksAreGivenBack) {
  std::vector<Request> requests;
  std::vector<std::vector<Completion>> want;
  for (int32_t i = 0; i < 8; ++i) {
    Request request = request_of(kFinite[i % 4], 20 + i);
    request.ids.resize(60 + static_cast<size_t>(i), 5);
    request.count = 1 + i % 3;
    request.sampling.log_probabilities = true;
    if (i % 3 == 2) request.sampling.constraint = nullptr;
    want.push_back(test::alone(*model_, at::kFloat, request));
    requests.push_back(std::move(request));
  }
  for (const Limits& limits : {Limits{.blocks = 4, .step_tokens = 61}, Limits{.blocks = 100}}) {
    Generator generator(*model_, limits, test::cache_of(*model_, CacheKind{at::kFloat}, limits.blocks));
    Completions got;
    std::vector<int64_t> first;
    for (const Request& request : requests) {
      first.push_back(generator.add(request));
      generator.step(got);
    }
    test::run(generator, got);
    for (size_t i = 0; i < requests.size(); ++i)
      for (size_t c = 0; c < want[i].size(); ++c)
        EXPECT_EQ(got.all[first[i] + static_cast<int64_t>(c)], want[i][c]) << i << "." << c;
  }
}

TEST_F(Constrained, AContinuationBeginsAnew) {
  Generator generator(*model_, Limits{}, test::cache_of(*model_, CacheKind{at::kFloat}, 20));
  Request request = request_of("[a-c]{3}", 3);
  request.keeps = true;
  const int64_t number = generator.add(request);
  for (int turn = 0; turn < 3; ++turn) {
    Completions got;
    test::run(generator, got);
    expect_match(got.all[number], "[a-c]{3}");
    const std::vector<int32_t> more = {9, 10};
    generator.extend(number, more, 32);
  }
}

TEST_F(Constrained, WithoutAnEndIdATextThatMustEndEnds) {
  Generator generator(*model_, Limits{}, test::cache_of(*model_, CacheKind{at::kFloat}, 20));
  Request request = request_of("[a-c]{3}", 3);
  request.sampling.own_end_ids = {1 << 30};  // of no token
  const int64_t number = generator.add(request);
  Completions got;
  test::run(generator, got);
  expect_match(got.all[number], "[a-c]{3}");
  EXPECT_EQ(tokenizer_->decode(got.all[number].ids, false).size(), 3u);
}

TEST_F(Constrained, WhatOtherOptionsForbidIsAnErrorOfTheCompletion) {
  Generator generator(*model_, Limits{}, test::cache_of(*model_, CacheKind{at::kFloat}, 20));
  Request late = request_of("[a-c]{3}", 3);
  late.sampling.min_new_tokens = 20;
  Request other = request_of("[a-c]{3}", 4);
  other.sampling.allowed_ids = {0};
  const int64_t first = generator.add(late), second = generator.add(other);
  const int64_t beside = generator.add(request_of("[a-c]{3}", 5));
  Completions got;
  test::run(generator, got);
  EXPECT_EQ(got.all[first].how, engine::Finish::failed);
  EXPECT_NE(got.all[first].error.find("min_new_tokens"), std::string::npos) << got.all[first].error;
  EXPECT_EQ(got.all[second].how, engine::Finish::failed);
  EXPECT_NE(got.all[second].error.find("remove all tokens"), std::string::npos) << got.all[second].error;
  expect_match(got.all[beside], "[a-c]{3}");
}

}  // namespace
}  // namespace trl::generate
