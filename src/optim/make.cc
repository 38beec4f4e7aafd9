// Makes an optimizer from the configuration, like transformers' trainer_optimizer.py.
#include "base/error.h"
#include "optim/rules.h"

namespace trl::optim {

Slice slice_of(const Parameter& parameter, const tensor::Writing& values, double grad_scale,
               const Common& common) {
  Slice slice;
  slice.value = span_of(*values);
  slice.grad = span_of(parameter.gradient());
  slice.count = parameter.count();
  slice.grad_scale = static_cast<float>(grad_scale);
  slice.weight_decay = parameter.decay ? common.weight_decay : 0.0;
  slice.stochastic = common.stochastic_rounding && slice.value.codec == Codec::bf16;
  return slice;
}

namespace {

void refuse_paged_on_device(const std::vector<Parameter*>& parameters) {
  for (const Parameter* p : parameters) {
    if (p->device().is_cpu()) continue;
    fail_key("optim",
             "optim: a paged one is refused, because the model is on {}, and files are mapped for weights on "
             "the CPU: give its name without paged_, or use_cpu: true",
             p->device().str());
  }
}

}  // namespace

std::unique_ptr<Optimizer> make_optimizer(std::vector<Parameter*> parameters,
                                          const config::TrainingArguments& arguments) {
  using config::Optim;
  const Common common{arguments.weight_decay,
                      arguments.stochastic_rounding,
                      static_cast<uint64_t>(arguments.seed),
                      {arguments.optim_states, arguments.optim_8bit_embeddings, arguments.optim_directory}};
  const bool bf16 = std::any_of(parameters.begin(), parameters.end(), [](const Parameter* p) {
    return p->has_gradient() && p->dtype() == at::kBFloat16;
  });
  if (common.stochastic_rounding && !bf16) config::refuse_stochastic_rounding();
  if (!common.states.directory.empty()) refuse_paged_on_device(parameters);
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
    case Optim::ademamix:
      return elementwise(ademamix(arguments.optim_args.ademamix));
    case Optim::adafactor:
      break;
  }
  return make_adafactor(std::move(parameters), {}, common);
}

}  // namespace trl::optim
