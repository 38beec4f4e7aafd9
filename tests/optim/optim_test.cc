// Clipping against the recorded one of torch, and what holds for AdamW beside its numbers.
#include "optim/optim.h"

#include <random>

#include "optim/flat.h"
#include "optim/weights.h"
#include "support/interrupts.h"
#include "tensor/threads/parallel.h"

namespace trl::optim {
namespace {

TEST(Clip, golden) {
  TRL_NEED_GOLDEN("optim/optimizers.json");
  const base::Json golden = test::golden_json("optim/optimizers.json");
  int cases = 0;
  for (const base::Json& c : golden["clip_grad_norm"]) {
    ++cases;
    Weights weights(golden["initial_params"]);
    for (size_t p = 0; p < weights.parameters.size(); ++p)
      set(weights.parameters[p].gradient(), golden["grads_per_step"][0][p]);
    const double norm = l2_norm(gradients(weights.pointers));
    EXPECT_TRUE(test::close(norm, c["total_norm"], test::limits::function)) << norm;
    const double scale = clip_scale(norm, c["max_norm"]);
    for (size_t p = 0; p < weights.parameters.size(); ++p) {
      expect_equal(weights.parameters[p].gradient() * scale, c["clipped"][p], fmt::format("clipped {}", p));
    }
  }
  EXPECT_EQ(cases, static_cast<int>(golden["clip_grad_norm"].size()));
  EXPECT_GE(cases, 2);
  EXPECT_EQ(clip_scale(100.0, 0.0), 1.0);
  EXPECT_EQ(clip_scale(100.0, -1.0), 1.0);
}

at::Tensor random_tensor(int64_t count, uint32_t seed, float scale) {
  std::mt19937 generator(seed);
  std::uniform_real_distribution<float> uniform(-scale, scale);
  const at::Tensor tensor = at::empty({count}, at::kFloat);
  for (int64_t i = 0; i < count; ++i) tensor.data_ptr<float>()[i] = uniform(generator);
  return tensor;
}

// The states of a large model are cleared, and its gradients summed, in seconds.
TEST(Clip, ANormOfMuchAndStatesOfMuchPoll) {
  std::vector<Parameter> parameters;
  parameters.push_back(trained("", at::zeros({1 << 24}, at::kFloat), at::zeros({1 << 24}, at::kFloat)));
  const std::vector<Parameter*> pointers = {&parameters[0]};
  EXPECT_GE(test::polls_of([&] { l2_norm(gradients(pointers)); }), 16);
  EXPECT_GE(test::polls_of([&] { flat_views(pointers, {at::kFloat}, base::MemoryKind::optimizer); }), 64);
}

// bfloat16 weights are updated in float32 and rounded once. The first update has a closed form, since the
// corrected moments are g and g^2: p (1 - lr wd) - lr g / (|g| + eps).
TEST(Adamw, bfloat16_rounds_once) {
  constexpr int64_t kCount = 1003;
  Parameter p = trained("", random_tensor(kCount, 1, 1.0f).to(at::kBFloat16),
                        random_tensor(kCount, 2, 0.1f).to(at::kBFloat16));
  const at::Tensor value = p.read()->to(at::kDouble);
  const at::Tensor g = p.gradient().to(at::kDouble) * 0.5;
  config::TrainingArguments arguments;
  arguments.weight_decay = 0.1;
  make_optimizer({&p}, arguments)->step(0.01, 0.5);
  const at::Tensor exact = value * (1 - 0.01 * 0.1) - 0.01 * g / (g.abs() + 1e-8);
  const at::Tensor want = exact.to(at::kFloat).to(at::kBFloat16);
  ASSERT_EQ(p.dtype(), at::kBFloat16);
  const at::Tensor got = *p.read();
  int64_t different = 0;
  for (int64_t i = 0; i < kCount; ++i) {
    if (got[i].item<float>() == want[i].item<float>()) continue;
    ++different;  // float32 rounding moved it over the middle between two bfloat16 values
    const double error = std::abs(got[i].item<double>() - exact[i].item<double>());
    EXPECT_LE(error, std::abs(exact[i].item<double>()) * 0x1.001p-8) << i;
  }
  EXPECT_LE(different, 2);
}

TEST(Adamw, decays_only_where_told_and_skips_frozen) {
  Parameter decayed = trained("decayed", at::full({5}, 2.0f), at::zeros({5})),
            plain = trained("plain", at::full({5}, 2.0f), at::zeros({5})),
            frozen("frozen", at::full({5}, 2.0f));
  plain.decay = false;
  config::TrainingArguments arguments;
  arguments.weight_decay = 0.5;
  const auto optimizer = make_optimizer({&decayed, &plain, &frozen}, arguments);
  optimizer->step(0.1, 1.0);
  EXPECT_FLOAT_EQ((*decayed.read())[0].item<float>(), 1.9f);
  EXPECT_EQ((*plain.read())[0].item<float>(), 2.0f);
  EXPECT_EQ((*frozen.read())[0].item<float>(), 2.0f);
  for (const StateTensor& part : optimizer->state())
    EXPECT_FALSE(part.name.starts_with("frozen")) << part.name;
  EXPECT_TRUE(gradients({&frozen}).empty());
  EXPECT_EQ(l2_norm({}), 0.0);
}

TEST(GradNorm, does_not_depend_on_threads) {
  const at::Tensor a = random_tensor(300'001, 3, 1.0f);
  const at::Tensor b = random_tensor(70'003, 4, 1.0f).to(at::kBFloat16);
  const int before = tensor::threads();
  tensor::set_threads(1);
  const double one = l2_norm({a, b});
  tensor::set_threads(3);
  EXPECT_EQ(l2_norm({a, b}), one);
  tensor::set_threads(before);
  const double squares =
      a.to(at::kDouble).pow(2).sum().item<double>() + b.to(at::kDouble).pow(2).sum().item<double>();
  EXPECT_NEAR(one, std::sqrt(squares), 1e-9);
}

}  // namespace
}  // namespace trl::optim
