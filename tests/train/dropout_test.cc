// Training with dropout: what is left out follows from the seed and the place in the run alone.
#include "kernels/reference.h"
#include "support/error_of.h"
#include "train/family_model.h"

namespace trl::train::dropout_test {
namespace {

using test::Settings;

using Model = test::FamilyModel;

const base::Json kNone = {{"embd_pdrop", 0}, {"attn_pdrop", 0}, {"resid_pdrop", 0}};

struct Outcome {
  std::vector<double> losses;
  std::vector<at::Tensor> weights;
};
Outcome finish(test::SftRun& run, Trainer& trainer) {
  Outcome outcome;
  while (trainer.step()) outcome.losses.push_back(test::value(trainer.metrics(), "loss"));
  outcome.weights = run.weights();
  return outcome;
}
Outcome outcome(const Model& model, const Settings& settings) {
  test::SftRun run = model.run(settings);
  return finish(run, run.start());
}
bool same_weights(const Outcome& a, const Outcome& b) {
  for (size_t i = 0; i < a.weights.size(); ++i) {
    if (!test::same_bits(a.weights[i], b.weights[i])) return false;
  }
  return a.weights.size() == b.weights.size();
}

TEST(Dropout, DoesNotDependOnCheckpointingOrThreads) {
  TRL_NEED_TINY_RUN();
  for (const char* name : {"gpt2_dropout", "gpt_neox_dropout", "phi3_dropout"}) {
    const Model model(name);
    for (const char* bf16 : {"false", "true"}) {
      SCOPED_TRACE(testing::Message() << name << ", bf16 " << bf16);
      const Outcome want = outcome(model, {{"bf16", bf16}});
      const Outcome again = outcome(model, {{"bf16", bf16}, {"gradient_checkpointing", "true"}});
      EXPECT_EQ(again.losses, want.losses);
      EXPECT_TRUE(same_weights(again, want));
      const test::Threads one(1);
      EXPECT_TRUE(same_weights(outcome(model, {{"bf16", bf16}}), want));
    }
  }
}

TEST(Dropout, GoesOnAsBeforeAfterResuming) {
  TRL_NEED_TINY_RUN();
  const Model model("gpt2_dropout");
  const test::Scratch scratch;
  const std::string whole = scratch / "whole", rest = scratch / "rest";
  const Settings saving = {{"save_strategy", "steps"}, {"save_steps", "2"}, {"output_dir", whole.c_str()}};
  const Outcome want = outcome(model, saving);
  test::SftRun run = model.run({{"output_dir", rest.c_str()}});
  Trainer& trainer = run.start();
  trainer.resume(whole + "/checkpoint-2");
  EXPECT_TRUE(same_weights(finish(run, trainer), want));
}

TEST(Dropout, FollowsTheSeedAndTheStep) {
  TRL_NEED_TINY_RUN();
  const Model model("gpt2_dropout");
  const auto losses = [](const char* seed, const Model& of) {
    test::SftRun run = of.run(
        {{"seed", seed}, {"learning_rate", "0"}, {"max_steps", "2"}, {"gradient_accumulation_steps", "1"}},
        {0, 3});
    return finish(run, run.start()).losses;
  };
  const std::vector<double> first = losses("1", model);
  EXPECT_NE(first[0], first[1]);  // the same rows and weights
  EXPECT_EQ(losses("1", model), first);
  EXPECT_NE(losses("2", model)[0], first[0]);
  const std::vector<double> without = losses("1", Model("gpt2_dropout", kNone));
  EXPECT_EQ(without[0], without[1]);
}

TEST(Dropout, IsThatOfTheFusedKernelsOnThePlainPath) {
  TRL_NEED_TINY_RUN();
  for (const char* name : {"gpt2_dropout", "qwen2_window_dropout"}) {
    const Model model(name);
    const Outcome fused = outcome(model, {}), plain = outcome(model, {{"fused_kernels", "off"}});
    for (size_t i = 0; i < fused.losses.size(); ++i)
      EXPECT_NEAR(plain.losses[i], fused.losses[i], 2e-5) << name << ", step " << i;
  }
}

TEST(Dropout, IsNotInEvaluation) {
  TRL_NEED_TINY_RUN();
  const auto evaluated = [](const Model& model) {
    test::SftRun run = model.run({});
    return test::value(run.start().evaluate(), "eval_loss");
  };
  const double loss = evaluated(Model("gpt2_dropout"));
  EXPECT_GT(loss, 0);
  EXPECT_EQ(loss, evaluated(Model("gpt2_dropout", kNone)));
}

TEST(Dropout, NoiseOfRoutersIsRefused) {
  TRL_NEED_TINY_RUN();
  const Model model("mixtral", {{"router_jitter_noise", 0.1}});
  test::SftRun run = model.run({});
  const auto [status, message] = test::error_of([&] { run.start(); });
  EXPECT_EQ(status, Status::unsupported);
  EXPECT_EQ(message,
            "config.json: router_jitter_noise is 0.1; this build trains routers without noise: set it to 0");
}

}  // namespace
}  // namespace trl::train::dropout_test
