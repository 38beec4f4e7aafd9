// Completions of a generation give their memory back, however they end, and leave nothing behind after an
// error.
#include "train/rollout/completion_writer.h"

#include <gtest/gtest.h>

#include <new>

#include "support/error_of.h"
#include "support/interrupts.h"
#include "support/no_memory.h"
#include "support/seeded_model.h"

namespace trl::train {
namespace {

class WritesCompletions : public testing::Test {
 protected:
  WritesCompletions() {
    prompts_.row_ids = {0, 1};
    prompts_.ids = {std::vector<int32_t>(70, 1), std::vector<int32_t>(70, 2)};  // more than a block each
    sampling_.max_new_tokens = 8;
    sampling_.temperature = 1;
  }
  std::vector<std::vector<int32_t>> write() {
    std::vector<std::vector<int32_t>> all;
    for (const engine::Completion& one : writer_.write(prompts_, sampling_, 0, watch_))
      all.push_back(one.ids);
    return all;
  }

  const test::SeededModel seeded_{"qwen3_window"};
  const std::unique_ptr<model::Model> model_ = model::Model::open(seeded_.directory.path(), "float32");
  const std::shared_ptr<generate::Cache> cache_ = std::make_shared<generate::Cache>(
      *model_, generate::CacheKind{}, 16 * generate::block_bytes(*model_, generate::CacheKind{}));
  generate::Generator* const generator_ = new generate::Generator(*model_, generate::Limits{}, cache_);
  CompletionWriter writer_{std::unique_ptr<generate::Generator>(generator_), nullptr, false};
  engine::PromptRows prompts_;
  engine::Sampling sampling_;
  CompletionWriter::Watch watch_{[](size_t, int32_t) { return false; }, [](const auto&, const auto&) {}};
};

TEST_F(WritesCompletions, GivesMemoryBackWhenItIsInterrupted) {
  test::StopsAt counts;
  std::vector<std::vector<int32_t>> want;
  {
    const base::InterruptScope scope(&counts);
    want = write();
  }
  EXPECT_EQ(cache_->memory.bytes(), 0);
  for (int64_t part = 1; part < 8; ++part) {
    test::StopsAt stops(std::max<int64_t>(1, counts.polls * part / 8));
    {
      const base::InterruptScope scope(&stops);
      EXPECT_EQ(test::error_of([&] { write(); }).first, Status::cancelled) << part;
    }
    EXPECT_EQ(cache_->memory.bytes(), 0) << part;
    EXPECT_EQ(cache_->pool->used() + cache_->pool->known(), 0) << part;
  }
  EXPECT_EQ(write(), want);
}

TEST_F(WritesCompletions, LeavesNoSequenceWhoseRowFindsNoMemory) {
  prompts_.ids[1] = prompts_.ids[0];
  const std::vector<std::vector<int32_t>> want = write();
  {
    const test::NoMemoryOf no_row(48);  // an entry of a map from a number to a number
    EXPECT_THROW(write(), std::bad_alloc);
  }
  ASSERT_TRUE(generator_->idle());
  EXPECT_EQ(write(), want);
}

TEST_F(WritesCompletions, ThrowsWhatFailsWithATokenAndGoesOn) {
  const std::vector<std::vector<int32_t>> want = write();
  int64_t tokens = 0;
  watch_.stops = [&](size_t, int32_t) -> bool { return ++tokens < 5 ? false : throw std::bad_alloc(); };
  EXPECT_THROW(write(), std::bad_alloc);
  EXPECT_TRUE(generator_->idle());
  EXPECT_EQ(cache_->memory.bytes(), 0);
  watch_.stops = [](size_t, int32_t) { return false; };
  EXPECT_EQ(write(), want);
}

}  // namespace
}  // namespace trl::train
