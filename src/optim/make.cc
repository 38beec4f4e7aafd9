// From the configuration to an optimizer, as transformers' trainer_optimizer.py.
#include "base/error.h"
#include "optim/rules.h"

namespace trl::optim {

std::vector<Parameter*> trained(std::vector<Parameter*> parameters) {
  std::erase_if(parameters, [](const Parameter* p) { return !p->has_gradient(); });
  return parameters;
}

Slice slice_of(const Parameter& parameter, const tensor::Writing& values, double grad_scale,
               const Common& common) {
  Slice slice;
  slice.value = values->data_ptr();
  slice.grad = parameter.gradient().data_ptr();
  slice.count = parameter.count();
  slice.bf16 = parameter.dtype() == at::kBFloat16;
  slice.grad_scale = static_cast<float>(grad_scale);
  slice.weight_decay = parameter.decay ? common.weight_decay : 0.0;
  slice.stochastic = common.stochastic_rounding;
  return slice;
}

std::unique_ptr<Optimizer> make_optimizer(std::vector<Parameter*> parameters,
                                          const config::TrainingArguments& arguments) {
  using config::Optim;
  const Common common{arguments.weight_decay, arguments.stochastic_rounding,
                      static_cast<uint64_t>(arguments.seed)};
  const bool bf16 = std::any_of(parameters.begin(), parameters.end(), [](const Parameter* p) {
    return p->has_gradient() && p->dtype() == at::kBFloat16;
  });
  if (common.stochastic_rounding && !bf16) config::refuse_stochastic_rounding();
  const auto elementwise = [&](Rule rule) {
    return make_elementwise(std::move(parameters), std::move(rule), common);
  };
  switch (arguments.optim) {
    case Optim::adamw:
      return elementwise(adam({arguments.adam_beta1, arguments.adam_beta2, arguments.adam_epsilon}));
    case Optim::sgd:
      return elementwise(sgd(arguments.optim_args));
    case Optim::rmsprop:
      return elementwise(rmsprop(arguments.optim_args));
    case Optim::adagrad:
      return elementwise(adagrad(arguments.optim_args));
    case Optim::lion:
      return elementwise(lion(arguments.adam_beta1, arguments.adam_beta2));
    case Optim::adafactor:
      break;
  }
  return make_adafactor(std::move(parameters), {}, common);
}

}  // namespace trl::optim
