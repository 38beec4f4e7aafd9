// Completions of every family are the same bits whatever is generated beside them, in whichever chunks their
// prompts are computed, with any number of threads, again after their blocks were given back, and with prompt
// lookup.
#include <gtest/gtest.h>

#include <random>

#include "checkpoint/gguf_of.h"
#include "generate/completions.h"
#include "support/seeded_model.h"
#include "tensor/threads/parallel.h"

namespace trl::generate {
namespace {

using test::Completion;
using test::Completions;

// They begin alike, and have at most that many tokens.
std::vector<Request> some_requests(int64_t longest) {
  std::vector<Request> all;
  for (int32_t p = 0; p < 8; ++p) {
    Request& request = all.emplace_back();
    for (int32_t i = 0; i < 1 + p * 53 % longest; ++i) request.ids.push_back((i * 7 + (i > 70 ? p : 0)) % 97);
    request.sampling.temperature = p % 4 == 0 ? 0 : 1;
    request.sampling.max_new_tokens = 3 + p;
    request.sampling.log_probabilities = true;
    request.sampling.prompt_best = p % 5 - 1;
    request.stream = static_cast<uint64_t>(10 * p);
    request.count = p % 3 == 0 ? 3 : 1;
  }
  return all;
}

// They repeat themselves, so that lookup finds ids that turn out to be right, and wrong ones. Some end early:
// at a stop id, where no token is left, or at the last position that the model has.
std::vector<Request> repeating_requests(int64_t longest) {
  std::vector<Request> all = some_requests(longest);
  for (size_t p = 0; p < all.size(); ++p) {
    engine::Sampling& sampling = all[p].sampling;
    for (size_t i = 0; i < all[p].ids.size(); ++i) all[p].ids[i] = static_cast<int32_t>(i % 3 + 5);
    sampling.allowed_ids = {5, 6, 7};
    sampling.max_new_tokens = 20;
    sampling.best = 2;
    if (p % 4 == 1) sampling.repetition_penalty = 1.3, sampling.frequency_penalty = 0.2;
    if (p % 4 == 2) sampling.no_repeat_ngram_size = 4, sampling.top_p = 0.9;
    if (p % 4 == 3) sampling.stop_ids = {7}, sampling.min_new_tokens = 3, sampling.logit_bias = {{5, 0.5f}};
  }
  return all;
}

std::vector<Request> with_lookup(std::vector<Request> requests) {
  for (size_t p = 0; p < requests.size(); ++p)
    requests[p].sampling.speculation = {.tokens = 1 + static_cast<int64_t>(p) * 3 % 8,
                                        .most_ngram = 3,
                                        .least_ngram = 1 + static_cast<int64_t>(p % 2),
                                        .always = p % 3 != 1};
  return requests;
}

std::vector<std::vector<Completion>> each_alone(const model::Model& model, const CacheKind& kind,
                                                const std::vector<Request>& requests) {
  std::vector<std::vector<Completion>> all;
  for (const Request& request : requests) all.push_back(test::alone(model, kind, request));
  return all;
}

// Adds all requests in random order at random times, beside others that are cancelled; twice, so that the
// second time finds what prompts begin with. Returns the ids that lookup had right.
int64_t expect_same(const model::Model& model, const CacheKind& kind, const Limits& limits,
                    const std::vector<Request>& requests, const std::vector<std::vector<Completion>>& want) {
  std::mt19937 random(3);
  Generator generator(model, limits, test::cache_of(model, kind, limits.blocks));
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
  for (const auto& [first, i] : which) {
    for (size_t c = 0; c < want[i].size(); ++c) {
      Completion& one = got.all[first + static_cast<int64_t>(c)];
      one.prompt = got.all[first].prompt;  // the first tells it
      EXPECT_EQ(one, want[i][c]) << "request " << i << "." << c;
    }
  }
  const engine::GenerationUse use = generator.use();
  EXPECT_LE(use.accepted, use.proposed);
  return use.accepted;
}

// Of requests that repeat themselves, with prompt lookup.
void expect_lookup_invariance(const model::Model& model, const CacheKind& kind, int64_t longest) {
  const std::vector<Request> requests = repeating_requests(longest);
  const auto want = each_alone(model, kind, requests);
  for (const Limits& limits : {Limits{.blocks = 4, .step_tokens = 61},
                               {.blocks = 30, .step_tokens = 16, .step_sequences = 5},
                               {.blocks = 200, .step_tokens = 1000, .prefix_cache = false}}) {
    SCOPED_TRACE(limits.blocks);
    EXPECT_GT(expect_same(model, kind, limits, with_lookup(requests), want), 0);
  }
}

void expect_invariance(const model::Model& model, const CacheKind& kind,
                       const std::vector<Request>& requests) {
  const auto want = each_alone(model, kind, requests);
  for (const Limits& limits : {Limits{.blocks = 3, .step_tokens = 61},
                               {.blocks = 7, .step_tokens = 7, .step_sequences = 3},
                               {.blocks = 200, .step_tokens = 1000, .prefix_cache = false}}) {
    SCOPED_TRACE(limits.blocks);
    expect_same(model, kind, limits, requests, want);
  }
  for (const int threads : {1, 3}) {
    tensor::set_threads(threads);
    SCOPED_TRACE(threads);
    expect_same(model, kind, {.blocks = 20, .step_tokens = 64}, requests, want);
  }
  tensor::set_threads(0);
}

class Invariance : public testing::TestWithParam<std::string> {
 protected:
  ~Invariance() override { tensor::set_threads(0); }
};

TEST_P(Invariance, CompletionsAreTheSameBits) {
  const test::SeededModel seeded(GetParam());
  const auto model = model::Model::open(seeded.directory.path(), "float32");
  const int64_t longest = GetParam().starts_with("gpt2") ? 48 : 130;  // learned positions, or two blocks
  for (const at::ScalarType compute : {at::kFloat, at::kBFloat16}) {
    SCOPED_TRACE(c10::toString(compute));
    expect_invariance(*model, {compute}, some_requests(longest));
  }
}

TEST_P(Invariance, PromptLookupChangesNoBit) {
  const test::SeededModel seeded(GetParam());
  const auto model = model::Model::open(seeded.directory.path(), "float32");
  const int64_t longest = GetParam().starts_with("gpt2") ? 48 : 130;
  for (const at::ScalarType compute : {at::kFloat, at::kBFloat16}) {
    SCOPED_TRACE(c10::toString(compute));
    expect_lookup_invariance(*model, {compute}, longest);
  }
}

// With keys and values in integers, with copies of the weights, and with weights in blocks.
TEST(InvarianceOfNumbers, CompletionsAreTheSameBits) {
  struct Numbers {
    const char* name;
    CacheKind kind = {};
    config::Quantization weights = {};
  };
  using model::NarrowType;
  for (const auto& [name, kind, weights] :
       {Numbers{"int8 keys and values", {.int8 = true}},
        {"bfloat16 copies", {.narrow = NarrowType::bfloat16}},
        {"int8 copies", {.narrow = NarrowType::int8}},
        {"int4 copies and int8 keys", {.int8 = true, .narrow = NarrowType::int4, .narrow_head = false}},
        {"nf4 weights", {}, {.form = config::WeightForm::nf4}},
        {"int8 weights", {}, {.form = config::WeightForm::int8}}}) {
    const auto model = model::Model::open(std::string(TRL_SOURCE_DIR "/tests/golden/models/qwen2"), "float32",
                                          nullptr, at::kCPU, model::Head::language, weights);
    for (const at::ScalarType compute : {at::kFloat, at::kBFloat16}) {
      SCOPED_TRACE(testing::Message() << name << ", " << compute);
      CacheKind own = kind;
      own.compute = compute;
      expect_invariance(*model, own, some_requests(130));
      expect_lookup_invariance(*model, own, 130);
    }
  }
}

// With weights in the blocks of a GGUF file.
TEST(InvarianceOfNumbers, OfAGgufFileCompletionsAreTheSameBits) {
  TRL_NEED_GOLDEN("models/llama3/config.json");
  const test::TemporaryDirectory directory;
  for (const auto& [name, type] :
       {std::pair{"qwen2", "q8_0"}, {"qwen2", "q4_0"}, {"llama3", "q8_0"}, {"llama3", "bf16"}}) {
    const auto model = model::Model::open(test::write_gguf_of(directory, name, type), "keep");
    int encoded = 0;
    for (const tensor::Parameter* parameter : model->parameters()) encoded += parameter->encoded() != nullptr;
    EXPECT_GT(encoded, 0);
    for (const at::ScalarType compute : {at::kFloat, at::kBFloat16}) {
      SCOPED_TRACE(testing::Message() << name << ", " << type << ", " << compute);
      expect_invariance(*model, {compute}, some_requests(130));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Recorded, Invariance, testing::ValuesIn(test::family_cases(false)),
                         [](const auto& instance) { return instance.param; });

}  // namespace
}  // namespace trl::generate
