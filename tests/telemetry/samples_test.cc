// samples.jsonl, read again, and its table in a report.
#include "telemetry/samples.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "base/files.h"
#include "telemetry/recorder.h"

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

TEST_F(SamplesFile, is_a_table_of_the_report) {
  RecordTo to;
  to.names = {"html"};
  to.output_dir = directory;
  to.samples = path;
  base::write_file(
      path, sample_line({2, 0.5, "<one>", "\"two\"\x1e<b>"}) + sample_line({4, 1, kConversation, "c"}));
  const auto page = [&] {
    {
      Recorders recorders(to, [](const std::string&) {});
      TrainerState state;
      state.log_history.emplace_back().set_integer("step", 4);
      recorders.add(state);
    }
    return base::read_file(base::join_path(directory, "report.html"));
  };
  const std::string with = page();
  const size_t newer = with.find("<tr><td>4</td><td>user: a &amp; b?</td><td>c</td></tr>");
  const size_t older = with.find("<tr><td>2</td><td>&lt;one&gt;</td><td>&quot;two&quot; &lt;b&gt;</td></tr>");
  EXPECT_NE(newer, std::string::npos);
  EXPECT_NE(older, std::string::npos);
  EXPECT_LT(newer, older);
  to.samples.clear();  // of another run, which had samples
  EXPECT_EQ(page().find("Samples"), std::string::npos);
}

TEST(SamplesTable, has_the_newest_of_many) {
  EXPECT_EQ(samples_section({}), "");
  std::vector<Sample> samples;
  for (int64_t step = 1; step <= 300; ++step) samples.push_back({step, 0, "a", "b"});
  const std::string section = samples_section(samples);
  EXPECT_NE(section.find("<td>101</td>"), std::string::npos);
  EXPECT_EQ(section.find("<td>100</td>"), std::string::npos);
  EXPECT_NE(section.find("The newest 200 of 300"), std::string::npos);
}

}  // namespace
}  // namespace trl::telemetry
