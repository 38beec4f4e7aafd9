#include "tensor/parameter.h"

#include "base/error.h"
#include "tensor/counted.h"
#include "tensor/use.h"

namespace trl::tensor {

Writing::~Writing() {
  if (parameter_ != nullptr) parameter_->copy_is_current_ = false;
}

Parameter::Parameter(std::string own_name, at::Tensor values)
    : name(std::move(own_name)), values_(std::move(values)) {}

Reading Parameter::read() {
  Reads::note(*this);
  return Reading(values_);
}

Reading Parameter::read(at::ScalarType type, Convert convert) {
  if (type == dtype()) return read();
  Reads::note(*this);
  if (!keeps_copies_) {
    const at::Tensor copy = empty(shape(), type, MemoryKind::workspace, device());
    convert(values_, copy);
    return Reading(copy);
  }
  if (!copy_.defined() || copy_.scalar_type() != type) {
    copy_is_current_ = false;
    copy_ = empty(shape(), type, MemoryKind::weights, device());
  }
  if (!copy_is_current_) convert(values_, copy_);
  copy_is_current_ = true;
  return Reading(copy_);
}

Reading Parameter::read_either(at::ScalarType type, Convert convert) {
  return keeps_copies_ ? read(type, convert) : read();
}

void Parameter::keep_copies(bool keep) {
  keeps_copies_ = keep;
  if (!keep) copy_ = at::Tensor();
}

Writing Parameter::write() { return Writing(*this, values_); }

void Parameter::replace(at::Tensor values) {
  if (has_trainer_) fail(Status::busy, "{} is being trained", name);
  values_ = std::move(values);
  copy_ = at::Tensor();
}

void Parameter::begin_training(at::Tensor gradient) {
  if (has_trainer_) fail(Status::busy, "the model is being trained by another trainer");
  if (gradient.defined()) gradient_ = std::make_shared<Gradient>(Gradient{std::move(gradient)});
  has_trainer_ = true;
}

void Parameter::end_training() {
  gradient_.reset();
  keep_copies(false);
  has_trainer_ = false;
}

const at::Tensor& Parameter::gradient() const {
  if (!has_gradient()) fail(Status::internal, "{} has no gradient", name);
  return gradient_->sum;
}

void Parameter::on_complete(std::function<void()> event) {
  if (!has_gradient()) fail(Status::internal, "{} has no gradient", name);
  gradient_->complete = std::move(event);
}

}  // namespace trl::tensor
