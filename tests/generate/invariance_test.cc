// Completions of every family are the same bits whatever is generated beside them, in whichever chunks their
// prompts are computed, with any number of threads, and again after their blocks were given back.
#include <gtest/gtest.h>

#include <random>

#include "generate/completions.h"
#include "support/seeded_model.h"
#include "tensor/threads/parallel.h"

namespace trl::generate {
namespace {

using test::Completion;
using test::Completions;

class Invariance : public testing::TestWithParam<std::string> {
 protected:
  Invariance() : model_(model::Model::open(seeded_.directory.path(), "float32")) {
    const int64_t longest = GetParam().starts_with("gpt2") ? 48 : 130;  // learned positions, or two blocks
    for (int32_t p = 0; p < 8; ++p) {
      Request& request = requests_.emplace_back();
      for (int32_t i = 0; i < 1 + p * 53 % longest; ++i)
        request.ids.push_back((i * 7 + (i > 70 ? p : 0)) % 97);  // they begin alike
      request.sampling.temperature = p % 4 == 0 ? 0 : 1;
      request.sampling.max_new_tokens = 3 + p;
      request.sampling.log_probabilities = true;
      request.stream = static_cast<uint64_t>(10 * p);
      request.count = p % 3 == 0 ? 3 : 1;
    }
  }
  ~Invariance() override { tensor::set_threads(0); }

  std::vector<std::vector<Completion>> each_alone(at::ScalarType compute) const {
    std::vector<std::vector<Completion>> all;
    for (const Request& request : requests_) all.push_back(test::alone(*model_, compute, request));
    return all;
  }

  const test::SeededModel seeded_{GetParam()};
  const std::unique_ptr<model::Model> model_;
  std::vector<Request> requests_;
};

// Adds all requests in random order at random times, beside others that are cancelled; twice, so that the
// second time finds what prompts begin with.
void expect_same(const model::Model& model, at::ScalarType compute, const Limits& limits,
                 const std::vector<Request>& requests, const std::vector<std::vector<Completion>>& want) {
  std::mt19937 random(3);
  Generator generator(model, compute, limits);
  Completions got;
  std::map<int64_t, size_t> which;  // by the first sequence
  std::vector<size_t> order;
  for (size_t i = 0; i < 2 * requests.size(); ++i) order.push_back(i % requests.size());
  std::shuffle(order.begin(), order.end(), random);
  for (const size_t i : order) {
    which[generator.add(requests[i])] = i;
    const Request& beside = requests[random() % requests.size()];
    const int64_t cancelled = generator.add(beside);
    for (int64_t steps = random() % 4; steps > 0; --steps) generator.step(got);
    for (int64_t c = 0; c < beside.count; ++c) generator.end(cancelled + c);
  }
  test::run(generator, got);
  EXPECT_EQ(generator.scheduler().pool().used(), 0);
  for (const auto& [first, i] : which)
    for (size_t c = 0; c < want[i].size(); ++c)
      EXPECT_EQ(got.all[first + static_cast<int64_t>(c)], want[i][c]) << "request " << i << "." << c;
}

TEST_P(Invariance, CompletionsAreTheSameBits) {
  for (const at::ScalarType compute : {at::kFloat, at::kBFloat16}) {
    SCOPED_TRACE(c10::toString(compute));
    const auto want = each_alone(compute);
    for (const Limits& limits : {Limits{.blocks = 3, .step_tokens = 61},
                                 {.blocks = 7, .step_tokens = 7, .step_sequences = 3},
                                 {.blocks = 200, .step_tokens = 1000, .prefix_cache = false}}) {
      SCOPED_TRACE(limits.blocks);
      expect_same(*model_, compute, limits, requests_, want);
    }
    for (const int threads : {1, 3}) {
      tensor::set_threads(threads);
      SCOPED_TRACE(threads);
      expect_same(*model_, compute, {.blocks = 20, .step_tokens = 64}, requests_, want);
    }
    tensor::set_threads(0);
  }
}

INSTANTIATE_TEST_SUITE_P(Recorded, Invariance, testing::ValuesIn(test::family_cases(false)),
                         [](const auto& instance) { return instance.param; });

}  // namespace
}  // namespace trl::generate
