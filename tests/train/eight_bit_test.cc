// Whole runs with bitsandbytes' optimizers, against TRL's.
#include "train/recorded_run.h"
#include "train/tiny_run.h"

namespace trl::train {
namespace {

class BitsandbytesRun : public testing::TestWithParam<const char*> {};

TEST_P(BitsandbytesRun, IsThatOfTrl) {
  TRL_NEED_TINY_RUN();
  const std::string optim = GetParam();
  const base::Json& want = test::golden_json("optim/bitsandbytes8.json")["runs"][optim];
  config::Config config = test::tiny_config({{"optim", optim.c_str()}, {"max_steps", "8"}});
  for (const auto& [key, value] : want["args"].items())
    config.set(key, value.is_string() ? value.get<std::string>() : value.dump());
  if (optim.starts_with("paged_")) config.set("offload_dir", TRL_BINARY_DIR);
  test::SftRun run(config, test::golden_path("models/qwen2"),
                   test::golden_path("data/datasets/train_lm.jsonl"), {0, 63});
  Trainer& trainer = run.start();
  while (trainer.step()) {
  }
  trainer.finish();
  const auto& history = trainer.state().log_history;
  for (size_t i = 0; i < want["log_history"].size(); ++i) {
    for (const auto& [name, value] : want["log_history"][i].items()) {
      EXPECT_TRUE(test::close(test::value(history[i], name), value, test::limits::record(name, 1e-3)))
          << "step " << i + 1 << ", " << name << ": " << test::value(history[i], name) << " instead of "
          << value;
    }
  }
  const auto start = model::Model::open(test::golden_path("models/qwen2"), "float32");
  const std::vector<tensor::Parameter*> first = start->parameters(), last = run.model().parameters();
  ASSERT_EQ(last.size(), want["weights"].size());
  for (size_t p = 0; p < last.size(); ++p) {
    const base::Json& recorded = want["weights"][last[p]->name];
    const at::Tensor got = last[p]->read()->to(at::kDouble), before = first[p]->read()->to(at::kDouble);
    const double change = (got - before).norm().item<double>();
    // A key's bias shifts the scores of a query nearly alike, so the softmax leaves little of its gradient
    // beside rounding, which Adam makes as large as all else.
    const double share = last[p]->name.ends_with("k_proj.bias") ? 2e-2 : 1e-3;
    EXPECT_NEAR(got.norm().item<double>(), recorded["norm"], share * change + 1e-6) << last[p]->name;
    const std::vector<double> some = recorded["some"];
    const at::Tensor far =
        got.flatten().slice(0, 0, c10::nullopt, 997) - at::tensor(at::ArrayRef<double>(some), at::kDouble);
    const double each = change / std::sqrt(static_cast<double>(got.numel()));  // of one number, on average
    EXPECT_LE(far.abs().max().item<double>(), 0.05 * each + 1e-6) << last[p]->name;
  }
}

INSTANTIATE_TEST_SUITE_P(Optim, BitsandbytesRun,
                         testing::Values("adamw_8bit", "lion_8bit", "rmsprop_bnb_8bit", "ademamix_8bit",
                                         "paged_ademamix_32bit"),
                         [](const auto& param) { return std::string(param.param); });

}  // namespace
}  // namespace trl::train
