// What a reference must be, and losses of rows that have nothing to be measured.
#include <fstream>

#include "support/error_of.h"
#include "train/tiny_run.h"

namespace trl::train::reference_test {
namespace {

using test::Settings;

TEST(Reference, OneThatFollowsThePolicyHasItsArchitecture) {
  TRL_NEED_TINY_RUN();
  const std::string other = test::golden_path("models/mistral"), own = test::golden_path("models/qwen2");
  const auto message = [&](const std::string& reference, const char* follows) {
    test::SftRun run(
        test::tiny_config(
            {{"method", "dpo"}, {"ref_model_name_or_path", reference.c_str()}, {"sync_ref_model", follows}}),
        own, test::golden_path("data/datasets/train_pref.jsonl"), {0, 7});
    return test::error_of([&] { run.start(); }).second;
  };
  EXPECT_EQ(message(own, "true"), "");
  EXPECT_EQ(message(other, "false"), "");
  EXPECT_EQ(
      message(other, "true"),
      "ref_model_name_or_path: " + other +
          " has other layers or other shapes than the model that is trained, and sync_ref_model: true "
          "mixes their weights: give a reference of the same architecture, or leave out sync_ref_model");
}

// The weights of a reference that is never written stay in the file, in whatever type they lie there, and are
// the policy's to the last bit: before the first update nothing is preferred.
TEST(Reference, StaysInItsFile) {
  TRL_NEED_TINY_RUN();
  for (const char* model : {"models/qwen2", "models/qwen2_bf16"}) {
    for (const char* dtype : {"float32", "bfloat16"}) {
      for (const char* fused_kernels : {"on", "off"}) {
        SCOPED_TRACE(fmt::format("{} as {}, fused kernels {}", model, dtype, fused_kernels));
        const auto weights = [&](const char* follows) {
          test::SftRun run(test::tiny_config({{"method", "dpo"},
                                              {"dtype", dtype},
                                              {"fused_kernels", fused_kernels},
                                              {"sync_ref_model", follows}}),
                           test::golden_path(model), test::golden_path("data/datasets/train_pref.jsonl"),
                           {0, 7});
          Trainer& trainer = run.start();
          const int64_t bytes = test::memory().now(base::MemoryKind::weights);
          EXPECT_TRUE(trainer.step());
          EXPECT_EQ(test::value(trainer.metrics(), "rewards/chosen"), 0);
          EXPECT_EQ(test::value(trainer.metrics(), "rewards/rejected"), 0);
          return bytes;
        };
        EXPECT_LT(static_cast<double>(weights("false")), 0.55 * static_cast<double>(weights("true")));
      }
    }
  }
}

// Its embedding may have more rows than the policy's, which pad it, but not fewer.
TEST(Reference, OneWithAPaddedEmbeddingIsTaken) {
  TRL_NEED_TINY_RUN();
  const std::string small = test::golden_path("models/llama"), large = test::golden_path("models/qwen2");
  const auto message = [](const std::string& policy, const std::string& reference) {
    test::SftRun run(test::tiny_config({{"method", "dpo"}, {"ref_model_name_or_path", reference.c_str()}}),
                     policy, test::golden_path("data/datasets/train_pref.jsonl"), {0, 7});
    return test::error_of([&] { run.start(); }).second;
  };
  EXPECT_EQ(message(small, large), "");
  EXPECT_EQ(message(large, small),
            "ref_model_name_or_path: " + small +
                " has a vocabulary of 448 tokens, and the model that is trained one of "
                "512: give a reference with the same vocabulary");
}

// A row whose one token is predicted by none is a part by itself, the first one.
TEST(Reference, ALossIsCountedOnceOverParts) {
  TRL_NEED_TINY_RUN();
  const test::Scratch scratch;
  const std::string rows = scratch / "rows.jsonl";
  std::ofstream(rows) << R"({"prompt": "", "completion": "", "label": true})"
                      << "\n"
                      << R"({"prompt": "one two", "completion": " three", "label": false})"
                      << "\n"
                      << R"({"prompt": "four", "completion": " five six", "label": true})"
                      << "\n";
  const auto loss = [&](const char* tokens) {
    test::SftRun run(
        test::tiny_config(
            {{"method", "kto"}, {"loss_type", "apo_zero_unpaired"}, {"max_tokens_per_pass", tokens}}),
        test::golden_path("models/qwen2"), rows, {0, 2});
    Trainer& trainer = run.start();
    EXPECT_TRUE(trainer.step());
    return test::value(trainer.metrics(), "loss");
  };
  const double whole = loss("1000");
  EXPECT_NE(whole, 0);
  EXPECT_NEAR(loss("1"), whole, 1e-6);
}

}  // namespace
}  // namespace trl::train::reference_test
