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

TwoWeights three_steps(const config::TrainingArguments& arguments, at::ScalarType type, Path path) {
  const PathScope scope(path);
  at::manual_seed(5);
  TwoWeights r{Parameter("matrix", at::randn({301, 211}).to(type)),
               Parameter("vector", at::randn({77}).to(type))};
  r.vector.decay = false;
  std::vector<Parameter*> parameters{&r.matrix, &r.vector};
  for (Parameter* p : parameters) p->begin_training(at::zeros_like(*p->read()));
  const auto optimizer = make_optimizer(parameters, arguments);
  for (int step = 0; step < 3; ++step) {
    for (Parameter* p : parameters) p->gradient().copy_(at::randn(p->shape()));
    r.norm = l2_norm(gradients(parameters));
    optimizer->step(1e-2, clip_scale(r.norm, 1.0));
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

constexpr Optim kOptimizers[] = {Optim::adamw,   Optim::sgd,       Optim::rmsprop,
                                 Optim::adagrad, Optim::adafactor, Optim::lion};

TEST(PlainOptimizers, AreTheSame) {
  for (const Optim optim : kOptimizers) {
    for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
      TwoWeights want = three_steps(every_argument(optim), type, Path::plain),
                 got = three_steps(every_argument(optim), type, Path::fused);
      EXPECT_NEAR(got.norm, want.norm, 1e-9 * want.norm);
      for (const auto& [a, b] :
           {std::pair(&got.matrix, &want.matrix), std::pair(&got.vector, &want.vector)}) {
        const at::Tensor difference = (a->read()->to(at::kDouble) - b->read()->to(at::kDouble)).abs();
        const at::Tensor size = b->read()->to(at::kDouble).abs().clamp_min(0.1);
        const double limit =
            type == at::kFloat ? 4e-6 : 0x1p-7;  // one step of bfloat16, where a sum lay on the edge
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
    TwoWeights want = three_steps(arguments, at::kBFloat16, Path::plain),
               got = three_steps(arguments, at::kBFloat16, Path::fused);
    const at::Tensor other = got.matrix.read()->ne(*want.matrix.read());
    EXPECT_LT(other.to(at::kDouble).mean().item<double>(), 5e-3) << static_cast<int>(optim);
    arguments.stochastic_rounding = false;
    TwoWeights nearest = three_steps(arguments, at::kBFloat16, Path::plain);
    EXPECT_GT(nearest.matrix.read()->ne(*want.matrix.read()).to(at::kDouble).mean().item<double>(), 0.1);
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
