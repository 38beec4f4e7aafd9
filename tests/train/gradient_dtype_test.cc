// gradient_dtype: what type gradients are collected in, and that each is the float32 one rounded once,
// however many parts of a micro-batch add to it.
#include "train/tiny_run.h"

namespace trl::train {
namespace {

using base::MemoryKind;
using test::Settings;

struct Collected {
  std::map<std::string, at::Tensor> gradients;
  int64_t bytes = 0;  // most at once
  double norm = 0;
};

Collected first_step(const Settings& settings, const std::string& model) {
  test::SftRun run(test::tiny_config(settings), test::golden_path("models/" + model),
                   test::golden_path("data/datasets/train_lm.jsonl"), {0, 63});
  Trainer& trainer = run.start();
  Collected result;
  std::vector<tensor::Parameter*> all = run.model().parameters();
  test::memory().reset_peak();
  for (tensor::Parameter* p : all) {
    p->on_complete([&, p] {
      result.gradients[p->name] = p->gradient().clone();
      result.bytes = std::max(result.bytes, test::memory().now(MemoryKind::gradients));
    });
  }
  EXPECT_TRUE(trainer.step());
  result.norm = test::value(trainer.metrics(), "grad_norm");
  return result;
}

// Where the head is tied to the embedding, both add to one gradient; its tiles do so everywhere, and so do
// the parts of a micro-batch.
TEST(GradientType, Bfloat16IsFloat32RoundedOnce) {
  TRL_NEED_TINY_RUN();
  const auto in_parts = [](Settings settings) {
    settings.push_back({"max_tokens_per_pass", "1"});
    return settings;
  };
  for (const char* model : {"qwen2", "llama3"}) {  // tied, and not
    for (const Settings& more :
         {Settings{}, Settings{{"bf16", "true"}, {"gradient_checkpointing", "true"}},
          Settings{{"dtype", "bfloat16"}}, Settings{{"fused_kernels", "off"}},
          Settings{{"fused_kernels", "off"}, {"gradient_checkpointing", "true"}, {"bf16", "true"}},
          in_parts({{"dtype", "bfloat16"}, {"gradient_checkpointing", "true"}}),
          in_parts({{"bf16", "true"}, {"fused_kernels", "off"}})}) {
      std::string trace = model;
      for (const auto& [key, setting] : more) trace += fmt::format(" {}: {}", key, setting);
      SCOPED_TRACE(trace);
      Settings wide = more, narrow = more;
      wide.push_back({"gradient_dtype", "float32"});
      narrow.push_back({"gradient_dtype", "bfloat16"});
      const Collected want = first_step(wide, model), got = first_step(narrow, model);
      ASSERT_EQ(got.gradients.size(), want.gradients.size());
      double squares = 0;
      for (const auto& [name, gradient] : got.gradients) {
        ASSERT_EQ(gradient.scalar_type(), at::kBFloat16) << name;
        const at::Tensor exact = want.gradients.at(name).to(at::kDouble), rounded = gradient.to(at::kDouble);
        // half a unit in the last place, and what the sums themselves may differ by
        const at::Tensor room = exact.abs() * (0x1p-8 + 0x1p-14) + exact.abs().max() * 1e-6;
        EXPECT_LE(((rounded - exact).abs() - room).max().item<double>(), 0) << name;
        squares += rounded.square().sum().item<double>();
      }
      EXPECT_NEAR(got.norm, std::sqrt(squares), 1e-9 * got.norm);
      const bool parts = !more.empty() && more.back().first == std::string_view("max_tokens_per_pass");
      if (std::string(model) == "llama3" && !parts) {
        EXPECT_LE(got.bytes, want.bytes / 2 + 4096 * std::ssize(got.gradients));
      }
    }
  }
}

TEST(GradientType, OfBfloat16WeightsMayBeFloat32) {
  TRL_NEED_TINY_RUN();
  const Collected got = first_step({{"dtype", "bfloat16"}, {"gradient_dtype", "float32"}}, "qwen2");
  for (const auto& [name, gradient] : got.gradients) EXPECT_EQ(gradient.scalar_type(), at::kFloat) << name;
}

}  // namespace
}  // namespace trl::train
