// Stochastic rounding of bfloat16 weights: right on average, and the same bits in every run.
#include "base/error.h"
#include "optim/optim.h"
#include "optim/weights.h"
#include "tensor/threads/parallel.h"

namespace trl::optim {
namespace {

constexpr int64_t kCount = 100'003;  // more than one piece

config::TrainingArguments arguments_of(config::Optim optim) {
  config::TrainingArguments arguments;
  arguments.optim = optim;
  arguments.stochastic_rounding = true;
  arguments.seed = 7;
  return arguments;
}

// Weights of `start` after `steps` updates with the gradient `grad`.
at::Tensor after(const config::TrainingArguments& arguments, float start, float grad, int steps,
                 double learning_rate) {
  Parameter p =
      trained("", at::full({kCount}, start).to(at::kBFloat16), at::full({kCount}, grad).to(at::kBFloat16));
  const auto optimizer = make_optimizer({&p}, arguments);
  for (int i = 0; i < steps; ++i) optimizer->step(learning_rate, 1.0);
  return *p.read();
}

// bfloat16 has the neighbours 1 and 1.0078125 = 1 + 2^-7; the exact result lies 0.3 of the way between them.
TEST(StochasticRounding, is_unbiased) {
  constexpr double kGap = 0x1p-7, kShare = 0.3125;
  for (const float sign : {1.0f, -1.0f}) {
    const at::Tensor value =
        after(arguments_of(config::Optim::sgd), sign, -sign * static_cast<float>(kShare), 1, kGap)
            .to(at::kDouble) *
        static_cast<double>(sign);
    const double up = value.gt(1.0).to(at::kDouble).mean().item<double>();
    const double deviation = std::sqrt(kShare * (1 - kShare) / kCount);
    EXPECT_NEAR(up, kShare, 5 * deviation);
    EXPECT_EQ(value.min().item<double>(), 1.0);
    EXPECT_EQ(value.max().item<double>(), 1.0 + kGap);
  }
}

// Updates of a 64th of the gap are lost by rounding to nearest; here the mean moves by all of them.
TEST(StochasticRounding, keeps_small_updates) {
  constexpr double kGap = 0x1p-7;
  config::TrainingArguments arguments = arguments_of(config::Optim::sgd);
  const double mean = after(arguments, 1.0f, -1.0f, 32, kGap / 64).to(at::kDouble).mean().item<double>();
  EXPECT_NEAR(mean, 1.0 + kGap / 2, 5 * kGap * 0.5 / std::sqrt(static_cast<double>(kCount)));
  arguments.stochastic_rounding = false;
  EXPECT_EQ(after(arguments, 1.0f, -1.0f, 32, kGap / 64).to(at::kDouble).mean().item<double>(), 1.0);
}

TEST(StochasticRounding, leaves_what_bfloat16_holds) {
  const at::Tensor value = after(arguments_of(config::Optim::sgd), 1.5f, 0.0f, 3, 1.0);
  EXPECT_TRUE(at::equal(value, at::full({kCount}, 1.5f).to(at::kBFloat16)));
}

TEST(StochasticRounding, same_bits_in_every_run_and_for_any_number_of_threads) {
  const int before = tensor::threads();
  for (const config::Optim optim : {config::Optim::sgd, config::Optim::adamw, config::Optim::adafactor}) {
    const config::TrainingArguments arguments = arguments_of(optim);
    tensor::set_threads(1);
    const at::Tensor one = after(arguments, 1.0f, 0.37f, 3, 1e-3);
    EXPECT_TRUE(at::equal(after(arguments, 1.0f, 0.37f, 3, 1e-3), one));
    tensor::set_threads(3);
    EXPECT_TRUE(at::equal(after(arguments, 1.0f, 0.37f, 3, 1e-3), one));
    EXPECT_GT(one.to(at::kFloat).std().item<float>(), 0.0f);
    config::TrainingArguments other = arguments;
    other.seed = 8;
    EXPECT_FALSE(at::equal(after(other, 1.0f, 0.37f, 3, 1e-3), one));
  }
  tensor::set_threads(before);
}

TEST(StochasticRounding, is_refused_for_float32_weights) {
  Parameter p = trained("", at::ones({4}), at::ones({4}));
  EXPECT_THROW(make_optimizer({&p}, arguments_of(config::Optim::sgd)), Error);
}

// What a checkpoint holds is all there is: an optimizer that is given steps and state goes on bit for bit.
TEST(Optimizers, state_and_steps_are_all_there_is) {
  using config::Optim;
  for (const Optim optim :
       {Optim::adamw, Optim::sgd, Optim::rmsprop, Optim::adagrad, Optim::adafactor, Optim::lion}) {
    config::TrainingArguments arguments = arguments_of(optim);
    arguments.optim_args.momentum = 0.9;
    arguments.optim_args.dampening = 0.5;
    arguments.optim_args.centered = true;
    arguments.optim_args.lr_decay = 0.1;
    at::manual_seed(3);
    const at::Tensor start = at::randn({40, 33}).to(at::kBFloat16);
    const std::vector<at::Tensor> grads = at::randn({4, 40, 33}).to(at::kBFloat16).unbind(0);
    const auto run = [&](bool resume) {
      Parameter p = trained("w", start.clone(), at::zeros_like(start));
      auto optimizer = make_optimizer({&p}, arguments);
      for (size_t i = 0; i < grads.size(); ++i) {
        if (resume && i == 2) {
          const auto old = std::move(optimizer);
          optimizer = make_optimizer({&p}, arguments);
          optimizer->set_steps(old->steps());
          const auto from = old->state(), to = optimizer->state();
          for (size_t k = 0; k < to.size(); ++k) to[k].value.copy_(from[k].value);
        }
        p.gradient().copy_(grads[i]);
        optimizer->step(1e-2, 0.5);
      }
      return *p.read();
    };
    EXPECT_TRUE(at::equal(run(true), run(false))) << static_cast<int>(optim);
  }
}

}  // namespace
}  // namespace trl::optim
