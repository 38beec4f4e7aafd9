// Frozen parameters: no gradient, no state, no step, and the others learn what they would have learned.
#include "train/tiny_run.h"

namespace trl::train {
namespace {

using test::joined;
using test::tiny_run;

const test::Settings kFrozenSteps = {{"max_steps", "3"}, {"weight_decay", "0.1"}};

bool is_frozen(std::string_view name) {
  return name == "model.embed_tokens.weight" || name.find("layers.0.self_attn") != std::string_view::npos ||
         name.find("layers.1.input_layernorm") != std::string_view::npos;
}

Trainer& start_frozen(test::SftRun& run) {
  for (tensor::Parameter* p : run.model().parameters()) p->trainable = !is_frozen(p->name);
  return run.start();
}

TEST(Frozen, KeepTheirValuesAndCostNothing) {
  TRL_NEED_TINY_RUN();
  for (const test::Settings& more : {test::Settings{},
                                     {{"bf16", "true"}, {"gradient_checkpointing", "true"}},
                                     {{"fused_kernels", "off"}},
                                     {{"optim", "adafactor"}}}) {
    test::SftRun run = tiny_run(joined(kFrozenSteps, more));
    const std::vector<at::Tensor> before = run.weights();
    Trainer& trainer = start_frozen(run);
    int64_t trained = 0, parameters = 0;
    for (const tensor::Parameter* p : run.model().parameters()) {
      EXPECT_EQ(p->has_gradient(), !is_frozen(p->name)) << p->name;
      if (!p->has_gradient()) continue;
      trained += p->count();
      ++parameters;
    }
    const int64_t padding = parameters * 128 + 4096;  // views, pages
    EXPECT_LE(test::memory().now(base::MemoryKind::optimizer), 2 * (4 * trained + padding));
    test::memory().reset_peak();
    while (trainer.step()) {
    }
    EXPECT_GE(test::memory().peak(base::MemoryKind::gradients), 4 * trained);
    EXPECT_LE(test::memory().peak(base::MemoryKind::gradients), 4 * trained + padding);
    const std::vector<at::Tensor> after = run.weights();
    for (size_t i = 0; i < after.size(); ++i) {
      const std::string& name = run.model().parameters()[i]->name;
      EXPECT_EQ(at::equal(before[i], after[i]), is_frozen(name)) << name;
    }
  }
}

// The norm is that of the gradients that are there: with the rest frozen a small one remains.
TEST(Frozen, AreNoPartOfTheNormThatClips) {
  TRL_NEED_TINY_RUN();
  const test::Scratch scratch;
  const std::string output = scratch / "output";
  test::SftRun all = tiny_run(kFrozenSteps),
               some = tiny_run(joined(kFrozenSteps, {{"output_dir", output.c_str()}}));
  Trainer &full = all.start(), &part = start_frozen(some);
  std::map<const tensor::Parameter*, at::Tensor> seen;
  for (test::SftRun* run : {&all, &some}) {
    for (tensor::Parameter* p : run->model().parameters())
      if (p->has_gradient()) p->on_complete([p, &seen] { seen[p] = p->gradient().clone(); });
  }
  ASSERT_TRUE(full.step());
  ASSERT_TRUE(part.step());
  EXPECT_EQ(test::value(full.metrics(), "loss"), test::value(part.metrics(), "loss"));
  double squares = 0;
  for (const tensor::Parameter* p : all.model().parameters()) {
    if (is_frozen(p->name)) continue;
    squares += seen.at(p).to(at::kDouble).square().sum().item<double>();
  }
  EXPECT_NEAR(test::value(part.metrics(), "grad_norm"), std::sqrt(squares), 1e-9);
  EXPECT_GT(test::value(full.metrics(), "grad_norm"), std::sqrt(squares) * 1.01);
  for (size_t i = 0; i < all.model().parameters().size(); ++i) {
    const tensor::Parameter &a = *all.model().parameters()[i], &b = *some.model().parameters()[i];
    if (!b.has_gradient()) continue;
    EXPECT_TRUE(at::equal(seen.at(&a), seen.at(&b))) << a.name;
  }
}

TEST(Frozen, HaveNoStateInACheckpointThatResumes) {
  TRL_NEED_TINY_RUN();
  const test::Scratch scratch;
  test::SftRun whole = tiny_run(kFrozenSteps);
  Trainer& trainer = start_frozen(whole);
  ASSERT_TRUE(trainer.step());
  trainer.save_checkpoint(scratch / "checkpoint");
  while (trainer.step()) {
  }
  const std::vector<at::Tensor> want = whole.weights();
  whole.stop();
  const io::Safetensors states(scratch / "checkpoint/optimizer.safetensors");
  EXPECT_FALSE(states.tensors().empty());
  for (const auto& [name, tensor] : states.tensors())
    EXPECT_FALSE(is_frozen(name.substr(0, name.rfind('.'))));
  test::SftRun resumed = tiny_run(kFrozenSteps);
  Trainer& rest = start_frozen(resumed);
  rest.resume(scratch / "checkpoint");
  while (rest.step()) {
  }
  const std::vector<at::Tensor> got = resumed.weights();
  for (size_t i = 0; i < want.size(); ++i) EXPECT_TRUE(at::equal(got[i], want[i])) << i;
}

}  // namespace
}  // namespace trl::train
