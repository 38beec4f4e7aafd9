// Prompt lookup: what it proposes, when its proposals are computed, and that no token changes.
#include "generate/lookup.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>

#include "generate/completions.h"
#include "generate/draft.h"
#include "generate/pace.h"
#include "support/error_of.h"
#include "support/seeded_model.h"

namespace trl::generate {
namespace {

using Ids = std::vector<int32_t>;

Lookup looking_up(const Ids& prompt, int64_t most, int64_t least, int64_t completions = 1) {
  return {prompt, completions, {.tokens = 8, .most_ngram = most, .least_ngram = least}};
}

TEST(Lookup, FindsWhatFollowedTheLongestAndThenTheLast) {
  Lookup lookup = looking_up({1, 2, 3, 10, 9, 2, 3, 11, 8, 2, 3, 12, 1, 2}, 3, 1);
  lookup.append(0, 3);
  EXPECT_EQ(lookup.after(0, 4), (Ids{10, 9, 2, 3}));  // after 1 2 3
  lookup.append(0, 9);
  EXPECT_EQ(lookup.after(0, 2), (Ids{2, 3}));  // after 9
  lookup.append(0, 3);
  EXPECT_EQ(lookup.after(0, 2), (Ids{9, 3}));  // after the last 3, and on
  lookup.append(0, 50);
  EXPECT_EQ(lookup.after(0, 2), Ids{});
}

TEST(Lookup, NeedsTheLeastNumberOfIds) {
  Lookup lookup = looking_up({1, 2, 3, 4, 5, 2, 3}, 4, 3);
  EXPECT_EQ(lookup.after(0, 4), Ids{});
  Lookup shorter = looking_up({1, 2, 3, 4, 5, 2, 3}, 4, 2);
  EXPECT_EQ(shorter.after(0, 4), (Ids{4, 5, 2, 3}));
  Lookup one = looking_up({1}, 4, 2);
  EXPECT_EQ(one.after(0, 4), Ids{});
}

TEST(Lookup, GoesRoundWhereATextRepeatsItself) {
  Lookup lookup = looking_up({7, 8, 9}, 5, 2);
  for (const int32_t id : {7, 8}) lookup.append(0, id);
  EXPECT_EQ(lookup.after(0, 7), (Ids{9, 7, 8, 9, 7, 8, 9}));
  Lookup prompt = looking_up({4, 4, 4}, 2, 2);
  EXPECT_EQ(prompt.after(0, 3), (Ids{4, 4, 4}));
}

TEST(Lookup, FindsIdsOfOtherCompletionsOfThePrompt) {
  Lookup lookup = looking_up({1, 2}, 3, 2, 3);
  for (const int32_t id : {5, 6, 7, 8}) lookup.append(1, id);
  lookup.append(0, 5);
  EXPECT_EQ(lookup.after(0, 3), (Ids{6, 7, 8}));  // after the prompt's last id and the first one
  for (const int32_t id : {9, 6, 7}) lookup.append(2, id);
  EXPECT_EQ(lookup.after(2, 3), Ids{8});
  EXPECT_EQ(lookup.after(1, 3), Ids{});
}

// Beside a search of the whole text.
TEST(Lookup, ProposesAsASearchOfTheTextDoes) {
  std::mt19937 random(1);
  Ids ids(1 + random() % 20);
  for (int32_t& id : ids) id = static_cast<int32_t>(random() % 3);
  Lookup lookup = looking_up(ids, 6, 2);
  int found = 0;
  for (int step = 0; step < 60; ++step) {
    int64_t longest = 1, at = -1;
    const int64_t length = std::ssize(ids);
    for (int64_t end = length - 1; end > 0; --end) {
      int64_t same = 0;
      while (same < std::min<int64_t>(6, end) &&
             ids[static_cast<size_t>(end - 1 - same)] == ids[static_cast<size_t>(length - 1 - same)])
        ++same;
      if (same > longest) longest = same, at = end;
    }
    const Ids got = lookup.after(0, 1);
    // It compares no more than some of the last places.
    if (length < 32) {
      ASSERT_EQ(got, at < 0 ? Ids{} : Ids{ids[static_cast<size_t>(at)]}) << length;
    }
    found += at >= 0;
    ids.push_back(static_cast<int32_t>(random() % 3));
    lookup.append(0, ids.back());
  }
  EXPECT_GT(found, 20);
}

TEST(Draft, FollowsItsSequenceAndKnowsHowOftenItIsRight) {
  const auto lookup = std::make_shared<Lookup>(looking_up({1, 2, 3, 4, 5, 1, 2}, 3, 2));
  Draft draft(lookup, 0, 0.5);
  EXPECT_TRUE(std::ranges::equal(draft.next(3), Ids{3, 4, 5}));
  draft.follow(3);
  EXPECT_GT(draft.right(), 0.5);
  EXPECT_TRUE(std::ranges::equal(draft.next(2), Ids{4, 5}));
  const double before = draft.right();
  draft.follow(9);
  EXPECT_LT(draft.right(), before);
  EXPECT_TRUE(draft.next(3).empty());
  draft.follow(8);  // nothing was expected
  draft.skip(Ids{3, 4});
  EXPECT_TRUE(std::ranges::equal(draft.next(2), Ids{5, 1}));
  EXPECT_TRUE(draft.next(0).empty());
}

TEST(Pace, WithoutAMeasuredStepNothingIsWorthIt) {
  const Pace pace;
  EXPECT_EQ(pace.worth(1, std::array{Pace::Proposal{8, 1.0}}), std::vector<int64_t>{0});
}

TEST(Pace, TriesWhatItHasNotMeasuredAndStopsWhereThatIsSlower) {
  Pace pace;
  pace.record(1, 1.0);
  EXPECT_EQ(pace.worth(1, std::array{Pace::Proposal{8, 0.9}}), std::vector<int64_t>{8});
  pace.record(9, 10.0);  // more than its nine tokens
  EXPECT_EQ(pace.worth(1, std::array{Pace::Proposal{8, 0.9}}), std::vector<int64_t>{0});
  for (int i = 0; i < 20; ++i) pace.record(9, 1.5);
  EXPECT_EQ(pace.worth(1, std::array{Pace::Proposal{8, 0.9}}), std::vector<int64_t>{8});
  EXPECT_EQ(pace.worth(1, std::array{Pace::Proposal{8, 0.05}}), std::vector<int64_t>{0});
}

TEST(Pace, RowsGoToTheProposalsThatAreRightMoreOften) {
  Pace pace;
  pace.record(2, 1.0);
  pace.record(18, 5.0);
  const std::array proposals = {Pace::Proposal{8, 0.3}, Pace::Proposal{8, 0.95}};
  const std::vector<int64_t> worth = pace.worth(2, proposals);
  EXPECT_EQ(worth[0], 0);
  EXPECT_GT(worth[1], 2);
}

TEST(Pace, MeasuresAStepWithoutProposalsAgain) {
  Pace pace;
  pace.record(1, 1.0);
  for (int i = 0; i < 300; ++i) pace.record(9, 1.1);
  EXPECT_EQ(pace.worth(1, std::array{Pace::Proposal{8, 1.0}}), std::vector<int64_t>{0});
  pace.record(1, 1.0);
  EXPECT_EQ(pace.worth(1, std::array{Pace::Proposal{8, 1.0}}), std::vector<int64_t>{8});
}

class LookupGenerator : public testing::Test {
 protected:
  static Request request(bool looks_up) {
    Request request{.ids = {5, 6, 7, 5, 6, 7, 5}, .sampling = {}};
    request.sampling.allowed_ids = {5, 6, 7};
    request.sampling.temperature = 1;
    request.sampling.max_new_tokens = 40;
    if (looks_up)
      request.sampling.speculation = {.tokens = 6, .most_ngram = 3, .least_ngram = 1, .always = true};
    return request;
  }

  const test::SeededModel seeded_{"qwen3_window"};
  const std::unique_ptr<model::Model> model_ = model::Model::open(seeded_.directory.path(), "float32");
};

// Ends its sequences at this number of tokens.
struct Refusing final : engine::GenerationSink {
  bool on_token(int64_t sequence, const engine::Token& token) noexcept override {
    ids[sequence].push_back(token.id);
    return std::ssize(ids[sequence]) < most;
  }
  void on_end(int64_t, engine::Finish how, std::string_view) noexcept override {
    refused += how == engine::Finish::refused;
  }
  std::map<int64_t, Ids> ids;
  int64_t most = 0, refused = 0;
};

TEST_F(LookupGenerator, ASinkMayEndASequenceAtAnyToken) {
  const Ids want = test::alone(*model_, at::kFloat, request(false))[0].ids;
  for (int64_t most = 1; most < 40; ++most) {
    Generator generator(*model_, at::kFloat, Limits{.blocks = 4});
    generator.add(request(true));
    Refusing sink;
    sink.most = most;
    while (generator.step(sink)) {
    }
    EXPECT_EQ(sink.ids[0], Ids(want.begin(), want.begin() + most));
    EXPECT_EQ(sink.refused, 1);
    EXPECT_EQ(generator.use().blocks, 0);
  }
}

TEST_F(LookupGenerator, AKeptSequenceGoesOnAsWithout) {
  const auto turns = [&](bool looks_up) {
    Request own = request(looks_up);
    own.keeps = true;
    own.count = 3;
    Generator generator(*model_, at::kFloat, Limits{.blocks = 8, .step_tokens = 20});
    generator.add(own);
    test::Completions first, second;
    test::run(generator, first);
    for (const int64_t sequence : {0, 1, 2}) generator.extend(sequence, Ids{7, 5, 6, 7}, 30, true);
    test::run(generator, second);
    EXPECT_EQ(generator.use().accepted > 0, looks_up);
    return std::pair(first.all, second.all);
  };
  EXPECT_EQ(turns(true), turns(false));
}

TEST_F(LookupGenerator, RightIdsSaveSteps) {
  const auto steps = [&](bool looks_up) {
    Request own = request(looks_up);
    own.sampling.temperature = 0;
    own.sampling.allowed_ids = {5};
    Generator generator(*model_, at::kFloat, Limits{.blocks = 4});
    generator.add(own);
    test::Completions got;
    int64_t count = 0;
    while (generator.step(got)) ++count;
    EXPECT_EQ(got.all[0].ids, Ids(40, 5));
    return count;
  };
  EXPECT_EQ(steps(false), 40);
  EXPECT_LT(steps(true), 12);
}

TEST_F(LookupGenerator, NumbersOutOfRangeAreRefused) {
  Generator generator(*model_, at::kFloat, Limits{.blocks = 4});
  for (const engine::Speculation wrong : {engine::Speculation{.tokens = 33},
                                          {.tokens = -1},
                                          {.tokens = 1, .most_ngram = 2, .least_ngram = 3},
                                          {.tokens = 1, .most_ngram = 65}}) {
    Request own = request(false);
    own.sampling.speculation = wrong;
    const auto [status, message] = test::error_of([&] { generator.add(own); });
    EXPECT_NE(message.find("speculative_config"), std::string::npos) << message;
  }
}

}  // namespace
}  // namespace trl::generate
