#include "tensor/parameter/use.h"

#include <algorithm>

namespace trl::tensor {

Use::Use(const Parameter& parameter) : gradient_(parameter.gradient_), open_(gradient_ != nullptr) {
  if (open_) ++gradient_->uses;
}

Use::~Use() {
  if (open_) --gradient_->uses;
}

void Use::end() {
  if (!std::exchange(open_, false)) return;
  gradient_->end_use();
}

void Reads::end_piece() const {
  for (Parameter* parameter : parameters_)
    if (parameter->copies_are_brief()) parameter->drop_copy();
}

void Reads::note(Parameter& parameter) {
  if (current_ == nullptr || !parameter.has_gradient()) return;
  auto& all = current_->parameters_;
  if (std::ranges::find(all, &parameter) == all.end()) all.push_back(&parameter);
}

std::vector<Use> Reads::uses() const {
  std::vector<Use> uses;
  for (const Parameter* parameter : parameters_) uses.emplace_back(*parameter);
  return uses;
}

}  // namespace trl::tensor
