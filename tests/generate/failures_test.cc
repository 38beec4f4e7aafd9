// A request that cannot be served, logits that are not numbers, memory that runs out and interrupts in the
// middle of a step: one clear error, and everything else has the same bits as without it.
#include <gtest/gtest.h>

#include <cmath>
#include <future>
#include <limits>
#include <optional>
#include <thread>

#include "generate/completions.h"
#include "generate/draft.h"
#include "generate/pace.h"
#include "kernels/kinds.h"
#include "support/error_of.h"
#include "support/interrupts.h"
#include "support/no_memory.h"
#include "support/seeded_model.h"
#include "tensor/counting_host.h"
#include "tensor/memory/counted.h"
#include "tensor/threads/parallel.h"

namespace trl::generate {
namespace {

using test::Completion;
using test::Completions;

const Limits kSmall{.blocks = 4, .step_tokens = 50};

// An id that no good request has or draws.
constexpr int32_t kStrange = 91;

// Some that fit into four blocks one after the other: sequences give theirs back, and a group copies.
std::vector<Request> good_requests() {
  std::vector<Request> all(4);
  for (int32_t r = 0; r < 4; ++r) {
    Request& request = all[static_cast<size_t>(r)];
    for (int32_t i = 0; i < 20 + 40 * r; ++i) request.ids.push_back((i * (r + 3)) % 90);
    request.sampling.temperature = 1;
    request.sampling.max_new_tokens = 6;
    request.sampling.suppress_tokens = {kStrange};
    request.sampling.log_probabilities = true;
    request.stream = static_cast<uint64_t>(10 * r);
  }
  all[1].count = 3;
  return all;
}

class Failures : public testing::Test {
 protected:
  Failures() {
    for (const Request& request : requests_)
      for (Completion& one : test::alone(*model_, at::kFloat, request)) want_.push_back(std::move(one));
  }
  void add_all(Generator& generator) const {
    for (const Request& request : requests_) generator.add(request);
  }
  // Those of add_all are what each is alone.
  void expect_want(Completions& got) const {
    for (size_t i = 0; i < want_.size(); ++i)
      EXPECT_EQ(got.all[static_cast<int64_t>(i)], want_[i]) << "sequence " << i;
  }

  test::CountingHost& host_ = test::host();
  const test::SeededModel seeded_{"qwen3_window"};
  const std::unique_ptr<model::Model> model_ = model::Model::open(seeded_.directory.path(), "float32");
  const std::vector<Request> requests_ = good_requests();
  std::vector<Completion> want_;
};

struct Bad {
  const char* message;
  std::function<void(Request&)> change;
};

// Each bad request is refused while others are generated.
void expect_refused(Generator& generator, const std::vector<Bad>& all) {
  for (const Bad& bad : all) {
    Request request{.ids = {1, 2, 3}, .sampling = {}};
    bad.change(request);
    const auto [status, message] = test::error_of([&] { generator.add(request); });
    EXPECT_NE(status, Status::ok) << bad.message;
    EXPECT_NE(message.find(bad.message), std::string::npos) << message;
  }
}

TEST_F(Failures, BadRequestsDisturbNobody) {
  Generator generator(*model_, at::kFloat, kSmall);
  add_all(generator);
  Completions got;
  generator.step(got);
  const std::string most = std::to_string(4 * generator.block_bytes()),
                    needed = std::to_string(5 * generator.block_bytes());
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  expect_refused(generator,
                 {{"the prompt is empty", [](Request& r) { r.ids.clear(); }},
                  {"id 97", [](Request& r) { r.ids[1] = 97; }},
                  {"id -1", [](Request& r) { r.ids[0] = -1; }},
                  {needed.c_str(), [](Request& r) { r.ids.assign(257, 1); }},
                  {most.c_str(), [](Request& r) { r.ids.assign(257, 1); }},
                  {"max_new_tokens is 0", [](Request& r) { r.sampling.max_new_tokens = 0; }},
                  {"top_p is 0", [](Request& r) { r.sampling.top_p = 0; }},
                  {"frequency_penalty is nan", [](Request& r) { r.sampling.frequency_penalty = kNan; }},
                  {"temperature is nan", [](Request& r) { r.sampling.temperature = kNan; }},
                  {"0 completions", [](Request& r) { r.count = 0; }}});
  test::run(generator, got);
  expect_want(got);
}

TEST(Positions, ThatAreLearnedEndAPrompt) {
  const test::SeededModel seeded("gpt2");
  const auto model = model::Model::open(seeded.directory.path(), "float32");
  Generator generator(*model, at::kFloat, {.blocks = 8});
  expect_refused(generator, {{"65 tokens, and the model has 64", [](Request& r) { r.ids.assign(65, 1); }}});
  Request request{.ids = std::vector<int32_t>(60, 1), .sampling = {}};
  request.sampling.max_new_tokens = 20;
  generator.add(request);
  Completions got;
  test::run(generator, got);
  EXPECT_EQ(got.all[0].ids.size(), 5u);  // the last one needs no position
  EXPECT_EQ(got.all[0].how, engine::Finish::length);
}

// Those of a rotary embedding refuse a prompt only if that is asked for, and never end a completion.
TEST_F(Failures, PromptsStayWithinPositionsIfThatIsAsked) {
  const int64_t positions = model_->config().positions();
  ASSERT_EQ(positions, 64);
  ASSERT_EQ(model_->config().learned_positions(), 0);
  Generator generator(*model_, engine::GeneratorSpec{.within_positions = true},
                      test::cache_of(*model_, CacheKind{}, 8));
  expect_refused(generator, {{"65 tokens, and the model has 64", [](Request& r) { r.ids.assign(65, 1); }}});
  Request request{.ids = std::vector<int32_t>(64, 1), .sampling = {}};
  request.sampling.max_new_tokens = 20;
  request.keeps = true;
  const int64_t kept = generator.add(request);
  Completions got;
  test::run(generator, got);
  EXPECT_EQ(got.all[kept].ids.size(), 20u);
  EXPECT_EQ(got.all[kept].how, engine::Finish::length);
  const std::vector<int32_t> more = {1};
  const auto [status, message] = test::error_of([&] { generator.extend(kept, more, 1); });
  EXPECT_EQ(status, Status::invalid_argument);
  EXPECT_NE(message.find("85 tokens, and the model has 64"), std::string::npos) << message;
  generator.end(kept);
  Generator any(*model_, at::kFloat, {.blocks = 8});
  request.ids.resize(65, 1);
  any.add(request);
  Completions others;
  test::run(any, others);
}

TEST_F(Failures, ASequenceThatOutgrowsTheCacheEndsWithTheReason) {
  Generator generator(*model_, at::kFloat, {.blocks = 1});
  Request request{.ids = std::vector<int32_t>(60, 1), .sampling = {}};
  request.sampling.max_new_tokens = 20;
  generator.add(request);
  Completions got;
  test::run(generator, got);
  EXPECT_EQ(got.all[0].ids.size(), 5u);
  EXPECT_EQ(got.all[0].how, engine::Finish::failed);
  const int64_t block = generator.block_bytes();
  for (const std::string& part :
       {fmt::format("kv_cache_memory, {} bytes", block), fmt::format("of {} for", block),
        fmt::format("allow {} bytes", 2 * block), std::string("at most 5 (")})
    EXPECT_NE(got.all[0].error.find(part), std::string::npos) << got.all[0].error;
  Generator larger(*model_, at::kFloat, {.blocks = 2});
  larger.add(request);
  request.sampling.max_new_tokens = 5;
  generator.add(request);
  Completions enough;
  test::run(larger, enough);
  EXPECT_EQ(enough.all[0].ids.size(), 20u);
  test::run(generator, enough);
  EXPECT_EQ(enough.all[1].ids.size(), 5u);
  EXPECT_EQ(enough.all[1].how, engine::Finish::length);
}

// Refuses memory for slabs beyond those that a generator has.
class NoMoreSlabs {
 public:
  NoMoreSlabs(test::CountingHost& host, const Generator& generator) : host_(host) {
    tensor::trim();
    host_.refuse_bytes = generator.use().bytes;  // one slab
  }
  ~NoMoreSlabs() { host_.refuse_bytes = INT64_MAX; }
  NoMoreSlabs(const NoMoreSlabs&) = delete;
  NoMoreSlabs& operator=(const NoMoreSlabs&) = delete;

 private:
  test::CountingHost& host_;
};

// More than a slab of keys at once, or of contents that nobody uses.
TEST_F(Failures, WithoutMemoryForMoreBlocksAllEndTheSame) {
  const auto completions = [&](bool refuses, bool prefix_cache) {
    Generator generator(*model_, at::kFloat, {.blocks = 1000, .prefix_cache = prefix_cache});
    Completions got;
    add_all(generator);
    generator.step(got);
    const int64_t slab = generator.use().bytes, blocks = slab / generator.block_bytes();
    for (int32_t r = 0; r < blocks / 3; ++r) {
      Request request{.ids = std::vector<int32_t>(290, r % 90), .sampling = {}};
      request.ids[1] = r / 90;
      request.sampling.max_new_tokens = 60;
      request.sampling.temperature = 1;
      generator.add(request);
    }
    std::optional<NoMoreSlabs> refused;
    if (refuses) refused.emplace(host_, generator);
    int64_t most = 0;
    for (; generator.step(got); most = std::max(most, generator.use().bytes)) {
    }
    EXPECT_EQ(most > slab, !refuses);
    EXPECT_EQ(generator.use().blocks, 0);
    expect_want(got);
    return got.all;
  };
  for (const bool prefix_cache : {false, true})
    EXPECT_EQ(completions(true, prefix_cache), completions(false, prefix_cache));
}

TEST_F(Failures, ASequenceThatNoMemoryIsLeftForEndsWithTheReason) {
  Generator generator(*model_, at::kFloat, {.blocks = 1000});
  add_all(generator);
  Completions got;
  test::run(generator, got);
  expect_want(got);
  generator.add(requests_[0]);
  generator.step(got);
  const NoMoreSlabs refused(host_, generator);
  const int64_t block = generator.block_bytes(), blocks = generator.use().bytes / block;
  const std::vector<int32_t> ids(static_cast<size_t>((blocks + 1) * kernels::kCacheRows), 1);
  const int64_t large = generator.add({.ids = ids, .sampling = {}});
  const int64_t after = generator.add(requests_[0]);
  test::run(generator, got);
  EXPECT_EQ(got.all[large].how, engine::Finish::failed);
  for (const int64_t bytes : {(blocks + 1) * block, block, blocks * block})
    EXPECT_NE(got.all[large].error.find(fmt::format(" {} ", bytes)), std::string::npos)
        << got.all[large].error;
  EXPECT_EQ(got.all[after], want_[0]);
  EXPECT_EQ(generator.use().blocks, 0);
}

// The row of an id in the embedding, which the head does not share, makes everything behind it no number.
TEST_F(Failures, LogitsThatAreNotNumbersEndTheirSequenceAlone) {
  ASSERT_FALSE(model_->config().tie_word_embeddings);
  {
    const at::NoGradGuard no_grad;
    model_->parameters()[0]->write()->select(0, kStrange).fill_(std::numeric_limits<float>::quiet_NaN());
  }
  Generator generator(*model_, at::kFloat, kSmall);
  add_all(generator);
  Request bad = requests_[2];
  bad.ids[50] = kStrange;
  bad.count = 2;
  const int64_t first = generator.add(bad);
  Completions got;
  test::run(generator, got);
  for (const int64_t sequence : {first, first + 1}) {
    EXPECT_EQ(got.all[sequence].how, engine::Finish::failed);
    EXPECT_EQ(got.all[sequence].error, "token 0: the model's output is not a number");
    EXPECT_TRUE(got.all[sequence].ids.empty());
  }
  expect_want(got);
  EXPECT_EQ(generator.use().blocks, 0);
}

// Every allocation of all steps is refused once, and those of the step after it once more.
TEST_F(Failures, EveryAllocationMayFail) {
  int64_t failed = 0;
  for (int64_t refused = 0;; refused += 1 + refused / 8) {
    Generator generator(*model_, at::kFloat, kSmall);
    add_all(generator);
    Completions got;
    host_.charges = 0;
    host_.refuse_from = refused;
    bool once = true;
    for (bool goes_on = true; goes_on;) {
      const auto [status, message] = test::error_of([&] { goes_on = generator.step(got); });
      if (status == Status::ok) continue;
      EXPECT_EQ(status, Status::out_of_memory) << message;
      ++failed;
      host_.refuse_from = std::exchange(once, false) ? host_.charges + 5 : INT64_MAX;
    }
    host_.refuse_from = INT64_MAX;
    expect_want(got);
    EXPECT_EQ(generator.use().blocks, 0);
    if (HasFailure()) FAIL() << "refused: " << refused;
    if (once) break;  // none was refused
  }
  EXPECT_GT(failed, 50);
}

// Tokens are chosen on several threads, none of which may end the process.
TEST_F(Failures, TokensThatNoMemoryIsLeftForAreChosenAgain) {
  Generator generator(*model_, at::kFloat, {.blocks = 16});
  add_all(generator);
  Completions got;
  for (const int threads : {2, 1}) {
    tensor::set_threads(threads);
    const test::NoMemoryOf no_logits(static_cast<size_t>(model_->config().vocab_size) * sizeof(float));
    EXPECT_THROW(generator.step(got), std::bad_alloc);
  }
  tensor::set_threads(0);
  EXPECT_TRUE(got.all.empty());
  test::run(generator, got);
  expect_want(got);
}

TEST_F(Failures, ATokenThatNoMemoryIsLeftForEndsItsSequenceAlone) {
  Generator generator(*model_, at::kFloat, {.blocks = 16});
  Request one{.ids = std::vector<int32_t>(61, 7), .sampling = {}};
  one.sampling.max_new_tokens = 6;
  add_all(generator);
  const int64_t sequence = generator.add(one);
  Completions got;
  {
    const test::NoMemoryOf no_ids(2 * one.ids.size() * sizeof(int32_t));  // for one more than these
    EXPECT_TRUE(generator.step(got));
  }
  EXPECT_EQ(got.all[sequence].how, engine::Finish::failed);
  EXPECT_EQ(got.all[sequence].error, "out of memory");
  test::run(generator, got);
  EXPECT_TRUE(got.all[sequence].ids.empty());
  expect_want(got);
  EXPECT_EQ(generator.use().blocks, 0);
}

// A paused sequence with prompt lookup, for which no allocation of some size succeeds.
TEST_F(Failures, ASequenceWithADraftIsExtendedWhollyOrNotAtAll) {
  Request request = requests_[0];
  request.sampling.speculation = {.tokens = 4, .most_ngram = 3, .least_ngram = 1, .always = true};
  request.sampling.max_new_tokens = 3;
  request.keeps = true;
  const std::vector<int32_t> more = {5, 6, 7, 8, 9, 10};
  const auto extended = [&](size_t bytes, bool& failed) {
    Generator generator(*model_, at::kFloat, kSmall);
    const int64_t sequence = generator.add(request);
    Completions first, second;
    test::run(generator, first);
    try {
      const test::NoMemoryOf none(bytes);
      generator.extend(sequence, more, 3);
    } catch (const std::bad_alloc&) {
      failed = true;
      generator.extend(sequence, more, 3);
    }
    test::run(generator, second);
    return second.all[sequence].ids;
  };
  bool failed = false;
  const std::vector<int32_t> want = extended(0, failed);
  EXPECT_EQ(want.size(), 3u);
  ASSERT_FALSE(failed);
  int64_t failures = 0;
  for (size_t bytes = 4; bytes <= 160; bytes += 4) {
    SCOPED_TRACE(bytes);
    failed = false;
    EXPECT_EQ(extended(bytes, failed), want);
    failures += failed;
  }
  EXPECT_GT(failures, 2);
}

TEST(DraftFailures, ATokenThatNoMemoryIsLeftForChangesNothing) {
  const std::vector<int32_t> prompt = {1, 2, 3, 4, 5, 1, 2};
  Draft draft(std::make_shared<Lookup>(prompt, 1, engine::Speculation{.tokens = 8, .least_ngram = 2}), 0,
              0.5);
  const auto next = [&] {
    const std::span<const int32_t> ids = draft.next(3);
    return std::vector<int32_t>(ids.begin(), ids.end());
  };
  const std::vector<int32_t> before = next();
  ASSERT_EQ(before, (std::vector<int32_t>{3, 4, 5}));
  for (const int32_t id : {3, 9}) {  // a right one and a wrong one
    const test::NoMemory none;
    EXPECT_THROW(draft.follow(id), std::bad_alloc);
    EXPECT_THROW(draft.skip(prompt), std::bad_alloc);
  }
  EXPECT_EQ(next(), before);
  EXPECT_EQ(draft.right(), 0.5);
  draft.make_room(std::ssize(prompt));
  {
    const test::NoMemory none;
    draft.skip(prompt);
  }
  EXPECT_TRUE(draft.next(0).empty());
}

// A step whose time finds no memory has its tokens all the same.
TEST(DraftFailures, AStepThatNoMemoryIsLeftToMeasureIsNotMeasured) {
  Pace pace;
  {
    const test::NoMemory none;
    pace.record(1, 1.0);
  }
  const std::vector<Pace::Proposal> certain = {{8, 1.0}};
  EXPECT_EQ(pace.worth(1, certain), std::vector<int64_t>{0});
  pace.record(1, 1.0);
  EXPECT_EQ(pace.worth(1, certain), std::vector<int64_t>{8});
}

// Waits in each call until another thread has ended one of these generators.
class EndsOthers final : public engine::GenerationSink {
 public:
  explicit EndsOthers(std::vector<std::unique_ptr<Generator>> others) : others_(std::move(others)) {}
  ~EndsOthers() {
    for (std::thread& thread : threads_) thread.join();
  }
  EndsOthers(const EndsOthers&) = delete;
  EndsOthers& operator=(const EndsOthers&) = delete;
  bool on_token(int64_t, const engine::Token&) noexcept override { return end_one(), true; }
  void on_end(int64_t, engine::Finish, std::string_view) noexcept override { end_one(); }
  int64_t ended = 0;  // without waiting for the end of the step

 private:
  void end_one() {
    if (others_.empty()) return;
    const auto done = std::make_shared<std::promise<void>>();
    threads_.emplace_back([done, other = std::move(others_.back())]() mutable {
      other.reset();
      done->set_value();
    });
    others_.pop_back();
    ended += done->get_future().wait_for(std::chrono::seconds(20)) == std::future_status::ready;
  }
  std::vector<std::unique_ptr<Generator>> others_;
  std::vector<std::thread> threads_;
};

TEST_F(Failures, ASinkMayWaitForAThreadThatEndsAnotherGenerator) {
  const auto cache = test::cache_of(*model_, CacheKind{}, 16);
  Generator generator(*model_, Limits{}, cache);
  std::vector<std::unique_ptr<Generator>> others;
  for (int i = 0; i < 2; ++i) {
    Completions beside;
    others.push_back(std::make_unique<Generator>(*model_, Limits{}, cache));
    others.back()->add(requests_[0]);
    others.back()->step(beside);
  }
  Request one = requests_[2];
  one.sampling.max_new_tokens = 1;
  generator.add(one);
  EndsOthers sink(std::move(others));
  while (generator.step(sink)) {
  }
  EXPECT_EQ(sink.ended, 2);
  EXPECT_EQ(generator.use().blocks, 0);
}

TEST_F(Failures, AnInterruptedStepIsComputedAgain) {
  test::StopsAt counts;
  {
    const base::InterruptScope scope(&counts);
    Generator generator(*model_, at::kFloat, kSmall);
    add_all(generator);
    Completions got;
    test::run(generator, got);
  }
  for (int64_t at = 1; at < counts.polls * 3 / 4; at += 1 + counts.polls / 60) {
    Generator generator(*model_, at::kFloat, kSmall);
    add_all(generator);
    Completions got;
    test::StopsAt stops(at);
    const base::InterruptScope scope(&stops);
    const auto [status, message] = test::error_of([&] { test::run(generator, got); });
    EXPECT_EQ(status, Status::cancelled) << message;
    stops.go_on();
    test::run(generator, got);
    expect_want(got);
  }
}

TEST_F(Failures, OnlyWhatEndedAndWasKeptGoesOn) {
  Generator generator(*model_, at::kFloat, kSmall);
  Request request = requests_[0];
  request.keeps = true;
  const int64_t kept = generator.add(request), other = generator.add(requests_[2]);
  const auto extended = [&](int64_t sequence, std::vector<int32_t> ids, int64_t tokens) {
    return test::error_of([&] { generator.extend(sequence, ids, tokens); }).second;
  };
  EXPECT_NE(extended(kept, {1}, 3).find("not ended yet"), std::string::npos);
  Completions got;
  test::run(generator, got);
  EXPECT_NE(extended(other, {1}, 3).find("without being kept"), std::string::npos);
  EXPECT_NE(extended(99, {1}, 3).find("never existed"), std::string::npos);
  EXPECT_NE(extended(kept, {}, 3).find("no tokens"), std::string::npos);
  EXPECT_NE(extended(kept, {97}, 3).find("id 97"), std::string::npos);
  EXPECT_NE(extended(kept, {1}, 0).find("max_new_tokens"), std::string::npos);
  EXPECT_NE(extended(kept, std::vector<int32_t>(300, 1), 3).find("bytes"), std::string::npos);
  const std::vector<int32_t> more = {5, 6, 7};
  EXPECT_EQ(extended(kept, more, 4), "");
  got.all[kept].how = engine::Finish::none;
  test::run(generator, got);
  // The same as a prompt of all its ids, with the draws that follow.
  EXPECT_EQ(got.all[kept].ids.size(), 10u);
  generator.end(kept);
  EXPECT_EQ(generator.use().blocks, 0);
}

// Without the cache of prefixes nothing is in use after the end, and with it only after release_memory().
TEST_F(Failures, KeysAndValuesThatNobodyUsesAreGivenBack) {
  for (const bool prefix_cache : {false, true}) {
    Limits limits{.blocks = 400, .prefix_cache = prefix_cache};
    Generator generator(*model_, at::kFloat, limits);
    const Generator other(*model_, at::kFloat, limits);
    Completions got;
    for (int32_t r = 0; r < 40; ++r) {
      Request request{.ids = std::vector<int32_t>(300, r), .sampling = {}};
      request.sampling.max_new_tokens = r == 5 ? 40 : 2;
      generator.add(request);
    }
    int64_t most = 0, last = 0;
    while (generator.step(got)) {
      most = std::max(most, generator.use().bytes);
      if (generator.use().running == 1) last = generator.use().bytes;
    }
    EXPECT_GT(most, 0);
    if (!prefix_cache) {
      EXPECT_LE(last, most);
      EXPECT_EQ(generator.use().bytes, 0);
    } else {
      EXPECT_EQ(generator.use().bytes, most);
    }
    generator.release_memory();
    EXPECT_EQ(generator.use().bytes, 0);
  }
}

}  // namespace
}  // namespace trl::generate
