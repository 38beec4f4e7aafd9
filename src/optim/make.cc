// Makes an optimizer from the configuration, like transformers' trainer_optimizer.py.
#include "base/error.h"
#include "optim/optim.h"
#include "optim/rules.h"
#include "tensor/memory/rehearsal.h"

namespace trl::optim {

namespace {

std::vector<Parameter*> trained(std::vector<Parameter*> parameters) {
  std::erase_if(parameters, [](const Parameter* p) { return !p->has_gradient(); });
  return parameters;
}

std::unordered_map<const Parameter*, size_t> indices_of(const std::vector<Parameter*>& parameters) {
  std::unordered_map<const Parameter*, size_t> indices;
  for (size_t p = 0; p < parameters.size(); ++p) indices.emplace(parameters[p], p);
  return indices;
}

}  // namespace

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
  const bool bf16 = std::ranges::any_of(
      parameters, [](const Parameter* p) { return p->has_gradient() && p->dtype() == at::kBFloat16; });
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

Optimizer::Optimizer(std::vector<Parameter*> parameters)
    : parameters_(trained(std::move(parameters))), indices_(indices_of(parameters_)) {}

void Optimizer::step(double learning_rate, double grad_scale) {
  const tensor::Stage stage("optimizer");
  begin_step();
  update_all(learning_rate, grad_scale);
}

void Optimizer::step(const Parameter& parameter, double learning_rate, double grad_scale) {
  const tensor::Stage stage("optimizer");
  const auto found = indices_.find(&parameter);
  if (found == indices_.end()) fail(Status::internal, "the optimizer does not have {}", parameter.name);
  update(found->second, learning_rate, grad_scale);
}

void Optimizer::update_all(double learning_rate, double grad_scale) {
  for (size_t p = 0; p < parameters_.size(); ++p) update(p, learning_rate, grad_scale);
}

}  // namespace trl::optim
