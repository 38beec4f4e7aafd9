// AdamW, clipping and schedules against the recorded ones of torch and transformers.
#include "optim/optim.h"

#include <random>

#include "optim/update.h"
#include "support/golden.h"
#include "tensor/parallel.h"

namespace trl::optim {
namespace {

void flatten(const base::Json& json, std::vector<float>& out) {
  if (json.is_number()) {
    out.push_back(json.get<float>());
    return;
  }
  for (const base::Json& item : json) flatten(item, out);
}
std::vector<float> numbers(const base::Json& json) {
  std::vector<float> out;
  flatten(json, out);
  return out;
}

at::Tensor tensor_of(const base::Json& json) {
  const std::vector<float> values = numbers(json);
  const at::Tensor tensor = at::empty({static_cast<int64_t>(values.size())}, at::kFloat);
  std::copy(values.begin(), values.end(), tensor.data_ptr<float>());
  return tensor;
}

void set(const at::Tensor& tensor, const base::Json& json) { tensor.copy_(tensor_of(json)); }

void expect_equal(const at::Tensor& tensor, const base::Json& json, const std::string& what) {
  const std::vector<float> want = numbers(json);
  ASSERT_EQ(tensor.numel(), static_cast<int64_t>(want.size())) << what;
  for (size_t i = 0; i < want.size(); ++i) {
    EXPECT_TRUE(test::close(tensor.data_ptr<float>()[i], want[i], 1e-6, 1e-5))
        << what << "[" << i << "]: " << tensor.data_ptr<float>()[i] << " instead of " << want[i];
  }
}

struct Weights {
  explicit Weights(const base::Json& initial) : parameters(initial.size()) {
    for (size_t p = 0; p < initial.size(); ++p) {
      parameters[p].value = tensor_of(initial[p]);
      parameters[p].grad = at::zeros_like(parameters[p].value);
      pointers.push_back(&parameters[p]);
    }
  }
  std::vector<Parameter> parameters;
  std::vector<Parameter*> pointers;
};

TEST(Adamw, golden) {
  TRL_NEED_GOLDEN("optim/optimizers.json");
  const base::Json golden = test::golden_json("optim/optimizers.json");
  int cases = 0;
  for (const base::Json& c : golden["cases"]) {
    const base::Json& config = c["config"];
    if (c["class"] != "torch.optim.adamw.AdamW" || config["amsgrad"].get<bool>()) continue;
    ++cases;
    config::TrainingArguments arguments;
    arguments.adam_beta1 = config["betas"][0];
    arguments.adam_beta2 = config["betas"][1];
    arguments.adam_epsilon = config["eps"];
    arguments.weight_decay = config["weight_decay"];
    Weights weights(golden["initial_params"]);
    const auto optimizer = make_adamw(weights.pointers, arguments);
    for (size_t step = 0; step < golden["grads_per_step"].size(); ++step) {
      for (size_t p = 0; p < weights.parameters.size(); ++p) {
        set(weights.parameters[p].grad, golden["grads_per_step"][step][p]);
      }
      optimizer->step(config["lr"], 1.0);
      for (size_t p = 0; p < weights.parameters.size(); ++p) {
        expect_equal(weights.parameters[p].value, c["params_after_step"][step][p],
                     fmt::format("case {}, step {}, parameter {}", cases, step, p));
      }
    }
    EXPECT_EQ(optimizer->steps(), 8);
  }
  EXPECT_EQ(cases, 2);
}

TEST(Clip, golden) {
  TRL_NEED_GOLDEN("optim/optimizers.json");
  const base::Json golden = test::golden_json("optim/optimizers.json");
  int cases = 0;
  for (const base::Json& c : golden["clip_grad_norm"]) {
    ++cases;
    Weights weights(golden["initial_params"]);
    for (size_t p = 0; p < weights.parameters.size(); ++p)
      set(weights.parameters[p].grad, golden["grads_per_step"][0][p]);
    const double norm = grad_norm(weights.pointers);
    EXPECT_TRUE(test::close(norm, c["total_norm"], 1e-6, 1e-5)) << norm;
    const double scale = clip_scale(norm, c["max_norm"]);
    for (size_t p = 0; p < weights.parameters.size(); ++p) {
      expect_equal(weights.parameters[p].grad * scale, c["clipped"][p], fmt::format("clipped {}", p));
    }
  }
  EXPECT_EQ(cases, static_cast<int>(golden["clip_grad_norm"].size()));
  EXPECT_GE(cases, 2);
  EXPECT_EQ(clip_scale(100.0, 0.0), 1.0);
  EXPECT_EQ(clip_scale(100.0, -1.0), 1.0);
}

TEST(Schedule, golden) {
  TRL_NEED_GOLDEN("optim/schedules.json");
  const std::pair<const char*, config::Scheduler> known[] = {
      {"linear", config::Scheduler::linear},
      {"cosine", config::Scheduler::cosine},
      {"constant", config::Scheduler::constant},
      {"constant_with_warmup", config::Scheduler::constant_with_warmup}};
  int cases = 0;
  for (const base::Json& c : test::golden_json("optim/schedules.json")["cases"]) {
    for (const auto& [name, type] : known) {
      if (c["name"] != name) continue;
      ++cases;
      config::TrainingArguments arguments;
      arguments.lr_scheduler_type = type;
      arguments.warmup_steps = c["warmup_steps"];
      arguments.num_cycles = c["kwargs"].value("num_cycles", 0.5);
      const base::Json& factors = c["lr_factor_per_step"];
      for (size_t i = 0; i < factors.size(); ++i) {
        const double got = schedule_factor(arguments, static_cast<int64_t>(i), c["training_steps"]);
        EXPECT_TRUE(test::close(got, factors[i], 1e-6, 1e-5)) << name << " update " << i << ": " << got;
      }
    }
  }
  EXPECT_EQ(cases, 9);
}

TEST(Schedule, warmup_ratio_golden) {
  TRL_NEED_GOLDEN("optim/warmup_steps.json");
  int cases = 0;
  for (const base::Json& c : test::golden_json("optim/warmup_steps.json")["cases"]) {
    ++cases;
    config::TrainingArguments arguments;
    arguments.lr_scheduler_type = config::Scheduler::constant_with_warmup;
    arguments.warmup_steps = c["warmup_steps_arg"];
    const int64_t warmup = c["get_warmup_steps"];
    const int64_t steps = c["num_training_steps"];
    EXPECT_EQ(schedule_factor(arguments, warmup, steps), 1.0);
    EXPECT_EQ(schedule_factor(arguments, warmup - 1, steps),
              static_cast<double>(warmup - 1) / static_cast<double>(warmup));
  }
  EXPECT_EQ(cases, 5);
}

at::Tensor random_tensor(int64_t count, uint32_t seed, float scale) {
  std::mt19937 generator(seed);
  std::uniform_real_distribution<float> uniform(-scale, scale);
  const at::Tensor tensor = at::empty({count}, at::kFloat);
  for (int64_t i = 0; i < count; ++i) tensor.data_ptr<float>()[i] = uniform(generator);
  return tensor;
}

// bfloat16 weights are updated in float32 and rounded once. The first update has a closed form, since the
// corrected moments are g and g^2: p (1 - lr wd) - lr g / (|g| + eps).
TEST(Adamw, bfloat16_rounds_once) {
  constexpr int64_t kCount = 1003;
  Parameter p;
  p.value = random_tensor(kCount, 1, 1.0f).to(at::kBFloat16);
  p.grad = random_tensor(kCount, 2, 0.1f).to(at::kBFloat16);
  const at::Tensor value = p.value.to(at::kDouble);
  const at::Tensor g = p.grad.to(at::kDouble) * 0.5;
  config::TrainingArguments arguments;
  arguments.weight_decay = 0.1;
  make_adamw({&p}, arguments)->step(0.01, 0.5);
  const at::Tensor exact = value * (1 - 0.01 * 0.1) - 0.01 * g / (g.abs() + 1e-8);
  const at::Tensor want = exact.to(at::kFloat).to(at::kBFloat16);
  ASSERT_EQ(p.value.scalar_type(), at::kBFloat16);
  int64_t different = 0;
  for (int64_t i = 0; i < kCount; ++i) {
    if (p.value[i].item<float>() == want[i].item<float>()) continue;
    ++different;  // float32 rounding moved it over the middle between two bfloat16 values
    const double error = std::abs(p.value[i].item<double>() - exact[i].item<double>());
    EXPECT_LE(error, std::abs(exact[i].item<double>()) * 0x1.001p-8) << i;
  }
  EXPECT_LE(different, 2);
}

TEST(Adamw, decays_only_where_told_and_skips_frozen) {
  Parameter decayed, plain, frozen;
  for (Parameter* p : {&decayed, &plain, &frozen}) p->value = at::full({5}, 2.0f);
  decayed.grad = at::zeros({5});
  plain.grad = at::zeros({5});
  plain.decay = false;
  config::TrainingArguments arguments;
  arguments.weight_decay = 0.5;
  make_adamw({&decayed, &plain, &frozen}, arguments)->step(0.1, 1.0);
  EXPECT_FLOAT_EQ(decayed.value[0].item<float>(), 1.9f);
  EXPECT_EQ(plain.value[0].item<float>(), 2.0f);
  EXPECT_EQ(frozen.value[0].item<float>(), 2.0f);
  EXPECT_EQ(grad_norm({&frozen}), 0.0);
}

TEST(GradNorm, does_not_depend_on_threads) {
  Parameter a, b;
  a.value = a.grad = random_tensor(300'001, 3, 1.0f);
  b.value = b.grad = random_tensor(70'003, 4, 1.0f).to(at::kBFloat16);
  const int before = tensor::threads();
  tensor::set_threads(1);
  const double one = grad_norm({&a, &b});
  tensor::set_threads(3);
  EXPECT_EQ(grad_norm({&a, &b}), one);
  tensor::set_threads(before);
  const double squares =
      a.grad.to(at::kDouble).pow(2).sum().item<double>() + b.grad.to(at::kDouble).pow(2).sum().item<double>();
  EXPECT_NEAR(one, std::sqrt(squares), 1e-9);
}

}  // namespace
}  // namespace trl::optim
