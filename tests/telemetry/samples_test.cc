// samples.jsonl and last_completions.jsonl, read again.
#include "telemetry/recorder.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>

#include "base/files/files.h"
#include "telemetry/scored.h"

namespace trl::telemetry {
namespace {

namespace fs = std::filesystem;

class SamplesFile : public testing::Test {
 protected:
  SamplesFile() { fs::create_directories(directory); }
  ~SamplesFile() override { fs::remove_all(directory); }
  const std::string directory =
      (fs::temp_directory_path() / ("trl_samples_test_" + std::to_string(getpid()))).string();
  const std::string path = samples_path(directory);
};

const base::Json kConversation = base::Json::parse(R"([{"role": "user", "content": "a & b?"}])");

TEST_F(SamplesFile, holds_an_object_a_line) {
  EXPECT_TRUE(read_samples(path).empty());
  const std::string line = sample_line({2, 0.5, "one", "two\n\xff"});
  EXPECT_EQ(line, "{\"step\":2,\"epoch\":0.5,\"prompt\":\"one\",\"completion\":\"two\\n\uFFFD\"}\n");
  base::write_file(path,
                   line + sample_line({4, 1, kConversation, "three"}) + "{\"step\": 1}\n[1]\n{\"step\":6,");
  const std::vector<Sample> samples = read_samples(path);
  ASSERT_EQ(samples.size(), 2u);
  EXPECT_EQ(samples[0].step, 2);
  EXPECT_EQ(samples[0].epoch, 0.5);
  EXPECT_EQ(samples[0].prompt, "one");
  EXPECT_EQ(samples[1].prompt, kConversation);
  EXPECT_EQ(samples[1].completion, "three");
}

TEST_F(SamplesFile, so_does_that_of_the_last_completions) {
  const std::string file = scored_path(directory);
  EXPECT_TRUE(read_scored(file).empty());
  base::write_file(file, scored_line({3, "one", "two", 0.5}) +
                             scored_line({3, kConversation, kConversation, std::nan("")}) +
                             "{\"step\": 3, \"prompt\": 1}\n" + std::string(200000, '[') +
                             std::string(200000, ']') + "\n{\"step\":");
  const std::vector<ScoredCompletion> read = read_scored(file);
  ASSERT_EQ(read.size(), 2u);
  EXPECT_EQ(read[0].step, 3);
  EXPECT_EQ(read[0].reward, 0.5);
  EXPECT_EQ(read[1].completion, kConversation);
  EXPECT_TRUE(std::isnan(read[1].reward));
}

TEST(PromptText, has_the_reasoning_and_the_parts_of_a_content) {
  const base::Json messages = base::Json::parse(
      R"([{"role": "user", "content": [{"type": "text", "text": "1 + 1"}, {"type": "text", "text": "?"}]},)"
      R"( {"role": "assistant", "reasoning_content": "Easy.", "content": "2"}, {"content": ""}])");
  EXPECT_EQ(prompt_text(messages), "user: 1 + 1?\nassistant: Easy. 2\n:");
}

TEST(PromptText, has_the_calls_of_a_message) {
  const base::Json messages = base::Json::parse(
      R"([{"role": "user", "content": "1 + 1?"}, {"role": "assistant", "content": null, "tool_calls": [{"type":)"
      R"( "function", "function": {"name": "add", "arguments": {"a": 1}}}]}, {"role": "tool", "content": "2"},)"
      R"( {"role": "assistant", "content": "Two.", "tool_calls": null}])");
  EXPECT_EQ(prompt_text(messages), "user: 1 + 1?\nassistant: add({\"a\":1})\ntool: 2\nassistant: Two.");
}

}  // namespace
}  // namespace trl::telemetry
