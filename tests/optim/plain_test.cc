// The sweeps over all parameters against the plain path: bfloat16 weights, clipping, stochastic rounding.
#include "kernels/path.h"
#include "optim/optim.h"
#include "optim/weights.h"

namespace trl::optim {
namespace {

using config::Optim;
using kernels::Path;
using kernels::PathScope;

// One matrix of more than a piece, and a vector.
struct TwoWeights {
  Parameter matrix, vector;
  double norm = 0;
};

struct Types {
  at::ScalarType value, gradient;
};
constexpr Types kTypes[] = {{at::kFloat, at::kFloat},
                            {at::kBFloat16, at::kBFloat16},
                            {at::kFloat, at::kBFloat16},
                            {at::kBFloat16, at::kFloat}};

TwoWeights three_steps(const config::TrainingArguments& arguments, Types types, Path path,
                       bool in_parts = false) {
  const PathScope scope(path);
  at::manual_seed(5);
  TwoWeights r{Parameter("matrix", at::randn({301, 211}).to(types.value)),
               Parameter("vector", at::randn({77}).to(types.value))};
  r.vector.decay = false;
  std::vector<Parameter*> parameters{&r.matrix, &r.vector};
  for (Parameter* p : parameters) p->begin_training(at::zeros(p->shape(), types.gradient));
  const auto optimizer = make_optimizer(parameters, arguments);
  for (int step = 0; step < 3; ++step) {
    for (Parameter* p : parameters) p->gradient().copy_(at::randn(p->shape()));
    r.norm = l2_norm(gradients(parameters));
    const double scale = clip_scale(r.norm, 1.0);
    if (!in_parts) {
      optimizer->step(1e-2, scale);
      continue;
    }
    optimizer->begin_step();
    for (const Parameter* p : {&r.vector, &r.matrix}) optimizer->step(*p, 1e-2, scale);
  }
  return r;
}

config::TrainingArguments every_argument(Optim optim) {
  config::TrainingArguments arguments;
  arguments.optim = optim;
  arguments.weight_decay = 0.1;
  arguments.optim_args.momentum = 0.9;
  arguments.optim_args.centered = true;
  arguments.seed = 11;
  return arguments;
}

constexpr Optim kOptimizers[] = {Optim::adamw,     Optim::sgd,  Optim::rmsprop, Optim::adagrad,
                                 Optim::adafactor, Optim::lion, Optim::ademamix};

TEST(PlainOptimizers, AreTheSame) {
  for (const Optim optim : kOptimizers) {
    for (const Types types : kTypes) {
      TwoWeights want = three_steps(every_argument(optim), types, Path::plain),
                 got = three_steps(every_argument(optim), types, Path::fused);
      EXPECT_NEAR(got.norm, want.norm, 1e-9 * want.norm);
      for (const auto& [a, b] :
           {std::pair(&got.matrix, &want.matrix), std::pair(&got.vector, &want.vector)}) {
        const at::Tensor difference = (a->read()->to(at::kDouble) - b->read()->to(at::kDouble)).abs();
        const at::Tensor size = b->read()->to(at::kDouble).abs().clamp_min(0.1);
        const double limit =
            types.value == at::kFloat ? 4e-6 : 0x1p-7;  // one step of bfloat16, where a sum lay on the edge
        EXPECT_LE((difference / size).max().item<double>(), limit) << static_cast<int>(optim);
        EXPECT_LT(difference.gt(size * 4e-6).to(at::kDouble).mean().item<double>(), 2e-3)
            << static_cast<int>(optim);
      }
    }
  }
}

// The draws are the same, so all but those that lie on the edge of theirs round alike.
TEST(PlainOptimizers, DrawTheSameStochasticRounding) {
  for (const Optim optim : kOptimizers) {
    config::TrainingArguments arguments = every_argument(optim);
    arguments.stochastic_rounding = true;
    TwoWeights want = three_steps(arguments, kTypes[1], Path::plain),
               got = three_steps(arguments, kTypes[1], Path::fused);
    const at::Tensor other = got.matrix.read()->ne(*want.matrix.read());
    EXPECT_LT(other.to(at::kDouble).mean().item<double>(), 5e-3) << static_cast<int>(optim);
    arguments.stochastic_rounding = false;
    TwoWeights nearest = three_steps(arguments, kTypes[1], Path::plain);
    EXPECT_GT(nearest.matrix.read()->ne(*want.matrix.read()).to(at::kDouble).mean().item<double>(), 0.1);
  }
}

// As a step within backward makes it: one parameter at a time, the last one first.
TEST(Optimizers, AStepInPartsHasTheBitsOfAWholeOne) {
  for (const Optim optim : kOptimizers) {
    for (const Types types : kTypes) {
      for (const Path path : {Path::fused, Path::plain}) {
        config::TrainingArguments arguments = every_argument(optim);
        arguments.stochastic_rounding = types.value == at::kBFloat16;
        TwoWeights want = three_steps(arguments, types, path),
                   got = three_steps(arguments, types, path, true);
        EXPECT_TRUE(at::equal(*got.matrix.read(), *want.matrix.read())) << static_cast<int>(optim);
        EXPECT_TRUE(at::equal(*got.vector.read(), *want.vector.read())) << static_cast<int>(optim);
      }
    }
  }
}

TEST(PlainOptimizers, AMatrixOfMatricesIsOneAfterTheOther) {
  for (const bool stochastic : {false, true}) {
    config::TrainingArguments arguments = every_argument(Optim::adafactor);
    arguments.stochastic_rounding = stochastic;
    std::vector<at::Tensor> results;
    for (const Path path : {Path::fused, Path::plain}) {
      const PathScope scope(path);
      at::manual_seed(6);
      Parameter p("", at::randn({3, 150, 90}).to(at::kBFloat16));
      p.begin_training(at::randn({3, 150, 90}).to(at::kBFloat16));
      make_optimizer({&p}, arguments)->step(1e-2, 1.0);
      results.push_back(p.read()->to(at::kDouble));
    }
    EXPECT_LT(results[0].ne(results[1]).to(at::kDouble).mean().item<double>(), 5e-3);
    EXPECT_LT((results[0] - results[1]).abs().max().item<double>(), 0.05);
  }
}

}  // namespace
}  // namespace trl::optim
