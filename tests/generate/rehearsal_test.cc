// A rehearsal of generation has the memory that generation takes: blocks and copies to the byte.
#include <gtest/gtest.h>

#include "generate/completions.h"
#include "memory/plan.h"
#include "support/seeded_model.h"
#include "tensor/counting_host.h"
#include "tensor/memory/rehearsal.h"

namespace trl::generate {
namespace {

// The most that a generator had while a token was passed on.
struct Taken final : engine::GenerationSink {
  explicit Taken(const Generator& one) : generator(one) {}
  bool on_token(int64_t, const engine::Token&) noexcept override {
    const engine::GenerationUse use = generator.use();
    blocks = std::max(blocks, use.blocks);
    bytes = std::max(bytes, use.bytes);
    ++tokens;
    return true;
  }
  void on_end(int64_t, engine::Finish how, std::string_view) noexcept override {
    EXPECT_EQ(how, engine::Finish::length);
  }
  const Generator& generator;
  int64_t blocks = 0, bytes = 0, tokens = 0;
};

struct Numbers {
  int64_t blocks = 0, bytes = 0, copies = 0, tokens = 0;
  bool operator==(const Numbers&) const = default;
};
std::ostream& operator<<(std::ostream& out, const Numbers& n) {
  return out << n.blocks << " blocks, " << n.bytes << " bytes, copies " << n.copies << ", tokens "
             << n.tokens;
}

class GenerationRehearsal : public testing::Test {
 protected:
  Numbers taken(const CacheKind& kind, const Limits& limits, int64_t prompt, int64_t count, int64_t more) {
    Generator generator(*model_, limits, test::cache_of(*model_, kind, limits.blocks));
    for (int32_t p = 0; p < 3; ++p) {
      Request request{.ids = std::vector<int32_t>(static_cast<size_t>(prompt + 7 * p), p), .sampling = {}};
      request.sampling.max_new_tokens = more;
      request.sampling.temperature = 1;
      request.count = count;
      request.stream = static_cast<uint64_t>(p * count);
      generator.add(request);
    }
    Taken sink(generator);
    while (generator.step(sink)) {
    }
    const model::NarrowWeights* const copies = generator.cache().narrow();
    return {sink.blocks, sink.bytes, copies == nullptr ? 0 : copies->bytes(), sink.tokens};
  }

  test::CountingHost& host_ = test::host();
  const test::SeededModel seeded_{"qwen3_window"};
  const std::unique_ptr<model::Model> model_ = model::Model::open(seeded_.directory.path(), "float32");
};

TEST_F(GenerationRehearsal, HasTheBlocksAndCopiesOfTheRealOne) {
  const std::vector<CacheKind> kinds = {{},
                                        {.int8 = true},
                                        {.compute = at::kBFloat16, .narrow = model::NarrowType::int8},
                                        {.narrow = model::NarrowType::int4, .narrow_head = false},
                                        {.narrow = model::NarrowType::bfloat16}};
  for (const CacheKind& kind : kinds) {
    for (const bool prefix_cache : {true, false}) {
      for (const auto& [prompt, count, more] :
           {std::tuple<int64_t, int64_t, int64_t>{5, 1, 3}, {64, 3, 20}, {70, 4, 130}}) {
        const Limits limits{.blocks = 1000, .step_tokens = 50, .prefix_cache = prefix_cache};
        const Numbers real = taken(kind, limits, prompt, count, more);
        const tensor::Rehearsal rehearsal;
        EXPECT_EQ(taken(kind, limits, prompt, count, more), real);
        EXPECT_EQ(real.copies > 0, kind.narrow.has_value());
      }
    }
  }
}

// What the memory counter sees at most is predicted to a twentieth, although few steps are computed.
TEST_F(GenerationRehearsal, HasThePeakOfTheRealOne) {
  const Limits limits{.blocks = 1000, .step_tokens = 200};
  const CacheKind kind{.narrow = model::NarrowType::int8};
  tensor::trim();
  const int64_t start = host_.counter.now();
  host_.counter.reset_peak();
  taken(kind, limits, 150, 4, 100);
  const int64_t peak = host_.counter.peak() - start;
  const tensor::Rehearsal rehearsal;
  taken(kind, limits, 150, 4, 100);
  std::vector<memory::Holding> holdings;
  for (const tensor::Taken& one : rehearsal.taken()) holdings.push_back({"all", one.bytes, one.from, one.to});
  const memory::Plan plan = memory::plan(holdings, std::ssize(rehearsal.events()), 1);
  EXPECT_NEAR(static_cast<double>(plan.peak), static_cast<double>(peak), 0.05 * static_cast<double>(peak));
}

}  // namespace
}  // namespace trl::generate
