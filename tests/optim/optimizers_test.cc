// Every optimizer, on both paths, against the recorded ones of torch, transformers and bitsandbytes, step by
// step.
#include <fmt/format.h>

#include "kernels/path.h"
#include "optim/rules.h"
#include "optim/weights.h"

namespace trl::optim {
namespace {

using config::OptimArguments;

std::unique_ptr<Optimizer> adafactor_of(const std::vector<Parameter*>& parameters, const base::Json& config,
                                        const Common& common) {
  AdafactorOptions options;
  options.epsilon = config["eps"][0];
  options.scale_epsilon = config["eps"][1];
  options.clip_threshold = config["clip_threshold"];
  options.decay_rate = config["decay_rate"];
  if (!config["beta1"].is_null()) options.beta1 = config["beta1"];
  options.scale_parameter = config["scale_parameter"];
  options.relative_step = config["relative_step"];
  options.warmup_init = config["warmup_init"];
  return make_adafactor(parameters, options, common);
}

OptimArguments arguments_of(const base::Json& config) {
  OptimArguments arguments;
  arguments.momentum = config.value("momentum", 0.0);
  arguments.dampening = config.value("dampening", 0.0);
  arguments.nesterov = config.value("nesterov", false);
  arguments.maximize = config.value("maximize", false);
  arguments.alpha = config.value("alpha", 0.99);
  arguments.eps = config.value("eps", 0.0);
  arguments.centered = config.value("centered", false);
  arguments.lr_decay = config.value("lr_decay", 0.0);
  arguments.initial_accumulator_value = config.value("initial_accumulator_value", 0.0);
  return arguments;
}

// By the class of the recorded optimizer; null: unknown.
std::unique_ptr<Optimizer> make(const std::string& name, const base::Json& config,
                                const std::vector<Parameter*>& parameters) {
  const Common common{config["weight_decay"], false, 0};
  if (name == "transformers.optimization.Adafactor") return adafactor_of(parameters, config, common);
  const auto elementwise = [&](Rule rule) { return make_elementwise(parameters, std::move(rule), common); };
  if (name == "torch.optim.adamw.AdamW" || name == "torch.optim.adam.Adam") {
    return elementwise(adam({config["betas"][0], config["betas"][1], config["eps"],
                             name == "torch.optim.adamw.AdamW", config["amsgrad"]}));
  }
  if (name == "torch.optim.sgd.SGD") return elementwise(sgd(arguments_of(config)));
  if (name == "torch.optim.rmsprop.RMSprop") return elementwise(rmsprop(arguments_of(config)));
  if (name == "torch.optim.adagrad.Adagrad") return elementwise(adagrad(arguments_of(config)));
  if (name == "Lion" || name == "Lion32bit") return elementwise(lion(config["betas"][0], config["betas"][1]));
  if (name == "AdamW32bit") {
    return elementwise(adam({config["betas"][0], config["betas"][1], config["eps"]}));
  }
  OptimArguments arguments;  // bitsandbytes writes momentum and alpha as its first beta
  arguments.eps = config["eps"];
  arguments.momentum = arguments.alpha = config["betas"][0];
  if (name == "SGD32bit") return elementwise(sgd(arguments));
  arguments.momentum = 0;
  if (name == "RMSprop32bit") return elementwise(rmsprop(arguments));
  return nullptr;
}

void check(const base::Json& c, const base::Json& start, const base::Json& grads_per_step, bool one) {
  SCOPED_TRACE(c["optimizer"].get<std::string>());
  const base::Json& config = c["config"];
  Weights weights(one ? base::Json::array({start}) : start);
  const auto optimizer = make(c["class"], config, weights.pointers);
  ASSERT_NE(optimizer, nullptr) << c["class"];
  const auto part = [&](const base::Json& of, size_t p) -> const base::Json& { return one ? of : of[p]; };
  for (size_t step = 0; step < grads_per_step.size(); ++step) {
    for (size_t p = 0; p < weights.parameters.size(); ++p) {
      set(weights.parameters[p].gradient(), part(grads_per_step[step], p));
    }
    optimizer->step(config["lr"].is_null() ? 0.0 : config["lr"].get<double>(), 1.0);
    for (size_t p = 0; p < weights.parameters.size(); ++p) {
      expect_equal(*weights.parameters[p].read(), part(c["params_after_step"][step], p),
                   fmt::format("step {}, parameter {}", step, p));
    }
  }
  EXPECT_EQ(optimizer->steps(), static_cast<int64_t>(grads_per_step.size()));
}

class RecordedOptimizers : public testing::TestWithParam<kernels::Path> {
  const kernels::PathScope scope_{GetParam()};
};
INSTANTIATE_TEST_SUITE_P(Paths, RecordedOptimizers,
                         testing::Values(kernels::Path::fused, kernels::Path::plain), [](const auto& param) {
                           return param.param == kernels::Path::fused ? "fused" : "plain";
                         });

TEST_P(RecordedOptimizers, golden) {
  TRL_NEED_GOLDEN("optim/optimizers.json");
  const base::Json& golden = test::golden_json("optim/optimizers.json");
  int cases = 0;
  for (const base::Json& c : golden["cases"]) {
    check(c, golden["initial_params"], golden["grads_per_step"], false);
    ++cases;
  }
  EXPECT_EQ(cases, 13);
}

TEST_P(RecordedOptimizers, golden_bitsandbytes) {
  TRL_NEED_GOLDEN("optim/bitsandbytes32.json");
  int cases = 0;
  for (const base::Json& c : test::golden_json("optim/bitsandbytes32.json")["cases"]) {
    check(c, c["start"], c["grads"], true);
    ++cases;
  }
  EXPECT_EQ(cases, 4);
}

}  // namespace
}  // namespace trl::optim
