// The file of record_rollouts.
#include "run/rollout/record.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace trl::run {
namespace {

TEST(Record, AFullDiskIsAnErrorOfTheSystemInItsWords) {
  Record record("/dev/full");
  const engine::PromptRows prompts{{0}, {{1, 2}}};
  const engine::Completion completion{{3}};
  try {
    record.add("train", 0, prompts, std::span(&completion, 1), {});
    FAIL() << "it was written";
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), Status::io);
    EXPECT_EQ(error.key(), "record_rollouts");
    EXPECT_EQ(error.message(), "record_rollouts: /dev/full: cannot be written: No space left on device");
  }
  EXPECT_EQ(record.bytes(), 0);
}

}  // namespace
}  // namespace trl::run
