#include "base/error.h"
#include "optim/optim.h"
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
