// Completions of a generation give their memory back, however they end.
#include "train/rollout/completion_writer.h"

#include <gtest/gtest.h>

#include "support/error_of.h"
#include "support/interrupts.h"
#include "support/seeded_model.h"

namespace trl::train {
namespace {

TEST(CompletionWriter, GivesMemoryBackWhenItIsInterrupted) {
  const test::SeededModel seeded("qwen3_window");
  const auto model = model::Model::open(seeded.directory.path(), "float32");
  const int64_t bytes = 16 * model->kv_memory(at::kFloat).block_bytes();
  const auto cache = std::make_shared<generate::Cache>(*model, generate::CacheKind{}, bytes);
  CompletionWriter writer(std::make_unique<generate::Generator>(*model, generate::Limits{}, cache), nullptr,
                          false);
  engine::PromptRows prompts;
  prompts.row_ids = {0, 1};
  prompts.ids = {std::vector<int32_t>(70, 1), std::vector<int32_t>(70, 2)};  // more than a block each
  engine::Sampling sampling;
  sampling.max_new_tokens = 8;
  sampling.temperature = 1;
  const CompletionWriter::Watch watch{[](size_t, int32_t) { return false; }, [](const auto&, const auto&) {}};
  const auto write = [&] {
    std::vector<std::vector<int32_t>> all;
    for (const engine::Completion& one : writer.write(prompts, sampling, 0, watch)) all.push_back(one.ids);
    return all;
  };
  test::StopsAt counts;
  std::vector<std::vector<int32_t>> want;
  {
    const base::InterruptScope scope(&counts);
    want = write();
  }
  EXPECT_EQ(cache->memory.bytes(), 0);
  for (int64_t part = 1; part < 8; ++part) {
    test::StopsAt stops(std::max<int64_t>(1, counts.polls * part / 8));
    {
      const base::InterruptScope scope(&stops);
      EXPECT_EQ(test::error_of([&] { write(); }).first, Status::cancelled) << part;
    }
    EXPECT_EQ(cache->memory.bytes(), 0) << part;
    EXPECT_EQ(cache->pool->used() + cache->pool->known(), 0) << part;
  }
  EXPECT_EQ(write(), want);
}

}  // namespace
}  // namespace trl::train
