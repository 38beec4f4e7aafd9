// Runs of KTO: micro-batches in parts, batches of one label, and what an evaluation reports.
#include "support/error_of.h"
#include "train/family_model.h"

namespace trl::train::kto_test {
namespace {

using test::Settings;
using test::value;

test::SftRun run_of(Settings settings, test::Rows rows, std::optional<test::Rows> eval_rows = {}) {
  settings.insert(settings.begin(), {"method", "kto"});
  return {test::tiny_config(settings), test::golden_path("models/qwen2"),
          test::golden_path("data/datasets/train_unpaired.jsonl"), rows, eval_rows};
}

TEST(Kto, AMicroBatchInPartsIsTheWholeOne) {
  TRL_NEED_GOLDEN("models/qwen2");
  for (const char* loss : {"kto", "apo_zero_unpaired"}) {
    SCOPED_TRACE(loss);
    auto whole = run_of({{"loss_type", loss}, {"max_steps", "3"}}, {0, 11}),
         parts = run_of({{"loss_type", loss}, {"max_steps", "3"}, {"max_tokens_per_pass", "64"}}, {0, 11});
    Trainer &a = whole.start(), &b = parts.start();
    while (a.step()) {
      ASSERT_TRUE(b.step());
      for (const telemetry::Entry& entry : a.metrics().entries())
        EXPECT_NEAR(value(b.metrics(), entry.name), entry.value, 4e-5 + 1e-4 * std::abs(entry.value))
            << entry.name;
    }
  }
}

// Evaluation turns completions within groups of the training batch, so its own batch size changes neither the
// sequences nor, here, where each label is in each batch, the mean over rows.
TEST(Kto, EvaluationReportsWhatTrainingDoes) {
  TRL_NEED_GOLDEN("models/qwen2");
  auto run = run_of({{"max_steps", "1"}, {"per_device_eval_batch_size", "8"}}, {0, 7}, test::Rows{0, 7});
  Trainer& trainer = run.start();
  const telemetry::Record before = trainer.evaluate();
  // nothing was learned yet
  EXPECT_NEAR(value(before, "eval_loss"), 0.5, 1e-6);
  EXPECT_NEAR(value(before, "eval_kl"), 0, 1e-5);
  for (const char* name : {"eval_rewards/chosen", "eval_rewards/rejected", "eval_rewards/margins"})
    EXPECT_NEAR(value(before, name), 0, 1e-5) << name;
  ASSERT_TRUE(trainer.step());
  const telemetry::Record after = trainer.evaluate();
  EXPECT_NE(value(after, "eval_rewards/chosen"), value(before, "eval_rewards/chosen"));
  EXPECT_LT(value(after, "eval_logps/chosen"), 0);
}

// The completions of other rows, without which apo_zero_unpaired does, do not count in it.
TEST(Kto, TheRoutersLossIsOfTheRowsAlone) {
  TRL_NEED_GOLDEN("families/qwen3_moe.json");
  const test::FamilyModel moe("qwen3_moe");
  const auto loss_of = [&](const char* loss) {
    test::SftRun run(
        test::tiny_config(
            {{"method", "kto"}, {"loss_type", loss}, {"max_steps", "1"}, {"router_aux_loss_coef", "0.1"}}),
        moe.path(), test::golden_path("data/datasets/train_unpaired.jsonl"), {0, 3});
    Trainer& trainer = run.start();
    EXPECT_TRUE(trainer.step());
    return value(trainer.metrics(), "aux_loss");
  };
  EXPECT_NEAR(loss_of("kto"), loss_of("apo_zero_unpaired"), 1e-6);
}

TEST(Kto, SyncMovesTheReferenceTowardsThePolicy) {
  TRL_NEED_GOLDEN("models/qwen2");
  const auto reward = [](const Settings& settings) {
    auto run = run_of(settings, {0, 7}, test::Rows{0, 7});
    Trainer& trainer = run.start();
    while (trainer.step()) {
    }
    return value(trainer.evaluate(), "eval_rewards/chosen");
  };
  // all of the policy: what was learned is gone from the ratio
  EXPECT_NEAR(reward({{"max_steps", "2"},
                      {"sync_ref_model", "true"},
                      {"ref_model_sync_steps", "2"},
                      {"ref_model_mixup_alpha", "1"}}),
              0, 1e-5);
  EXPECT_GT(std::abs(reward({{"max_steps", "2"}})), 1e-3);
}

}  // namespace
}  // namespace trl::train::kto_test
