// Importance ratios of all four modes against TRL's.
#include "loss/policy/importance.h"

#include <map>

#include "loss/recorded_metrics.h"
#include "support/golden.h"

namespace trl::loss {
namespace {

using base::Json;

ImportanceOptions importance_options(const Json& config) {
  static const std::map<std::string, ImportanceMode> kModes = {
      {"token_truncate", ImportanceMode::token_truncate},
      {"token_mask", ImportanceMode::token_mask},
      {"sequence_truncate", ImportanceMode::sequence_truncate},
      {"sequence_mask", ImportanceMode::sequence_mask}};
  ImportanceOptions o;
  o.mode = kModes.at(config["vllm_importance_sampling_mode"]);
  const Json &least = config["vllm_importance_sampling_clip_min"],
             &most = config["vllm_importance_sampling_clip_max"];
  if (!least.is_null()) o.least = least;
  o.most = most.is_null() ? std::numeric_limits<double>::infinity() : most.get<double>();
  return o;
}

TEST(Importance, IsTrls) {
  TRL_NEED_GOLDEN("losses/importance_ratio.json");
  int cases = 0;
  for (const Json& c : test::golden_json("losses/importance_ratio.json")["cases"]) {
    SCOPED_TRACE(std::to_string(cases) + ": " + c["config"].dump());
    ++cases;
    Json mask = Json::array();
    for (const Json& length : c["completion_lengths"])
      mask.push_back(std::vector<int>(length.get<size_t>(), 1));
    const test::RecordedTokens tokens(mask, c["tool_mask"]);
    const std::vector<float> old = tokens.of(c["old_per_token_logps"]);
    const std::vector<float> sampling = tokens.of(c["sampling_logps"]);
    const Importance got =
        importance_ratios({mask.size(), tokens.rows, old, sampling}, importance_options(c["config"]));
    const std::vector<float> want = tokens.of(c["importance_sampling_ratio"]);
    ASSERT_EQ(got.ratios.size(), want.size());
    for (size_t t = 0; t < want.size(); ++t)
      EXPECT_TRUE(test::close(got.ratios[t], want[t], test::limits::function))
          << got.ratios[t] << " " << want[t];
    test::expect_metrics(got.metrics, c["metrics"]);
  }
  EXPECT_EQ(cases, 48);
}

TEST(Importance, TheGapIsOfKnownLogProbabilities) {
  SamplingGap gap;
  EXPECT_TRUE(gap.empty());
  for (const auto& [name, value] : gap.metrics()) EXPECT_EQ(value, 0) << name;
  gap.add(-1, -1.5);
  gap.add(-3, -2);
  gap.add(-4, std::numeric_limits<double>::quiet_NaN());
  const Metrics want = {{"sampling/sampling_logp_difference/mean", 0.75},
                        {"sampling/sampling_logp_difference/max", 1}};
  EXPECT_EQ(gap.metrics(), want);
}

// Nothing is known of one row, and the other has no target: both count as ratio 1.
TEST(Importance, OfUnknownLogProbabilitiesIsOne) {
  const std::vector<int32_t> rows = {0, 0};
  const std::vector<float> old = {-1, -2}, sampling(2, std::numeric_limits<float>::quiet_NaN());
  for (const ImportanceMode mode : {ImportanceMode::token_truncate, ImportanceMode::token_mask,
                                    ImportanceMode::sequence_truncate, ImportanceMode::sequence_mask}) {
    const Importance got = importance_ratios({2, rows, old, sampling}, {.mode = mode});
    EXPECT_EQ(got.ratios, std::vector<float>(2, 1));
    for (const auto& [name, value] : got.metrics)
      EXPECT_EQ(value, name.find("difference") != std::string_view::npos ? 0 : 1) << name;
  }
}

// A generation of which nothing counts has no ratios of tokens; those of its completions are 1.
TEST(Importance, OfNothingIsNotNan) {
  for (const ImportanceMode mode : {ImportanceMode::token_truncate, ImportanceMode::token_mask,
                                    ImportanceMode::sequence_truncate, ImportanceMode::sequence_mask}) {
    const bool by_sequence =
        mode == ImportanceMode::sequence_truncate || mode == ImportanceMode::sequence_mask;
    const Importance got = importance_ratios({2, {}, {}, {}}, {.mode = mode});
    EXPECT_TRUE(got.ratios.empty());
    for (const auto& [name, value] : got.metrics)
      EXPECT_EQ(value, by_sequence && name.find("ratio") != std::string_view::npos ? 1 : 0) << name;
  }
}

}  // namespace
}  // namespace trl::loss
