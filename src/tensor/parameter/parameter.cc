#include "tensor/parameter/parameter.h"

#include "base/error.h"
#include "tensor/memory/counted.h"
#include "tensor/parameter/use.h"
#include "tensor/threads/parallel.h"

namespace trl::tensor {

Writing::~Writing() {
  if (parameter_ == nullptr) return;
  parameter_->copy_is_current_ = false;
  ++parameter_->version_;
}

Parameter::Parameter(std::string own_name, at::Tensor values)
    : name(std::move(own_name)), values_(std::move(values)) {}

Parameter::Parameter(std::string own_name, std::shared_ptr<const Encoded> values, at::ScalarType type)
    : name(std::move(own_name)), trainable(false), encoded_(std::move(values)), encoded_type_(type) {}

namespace {

at::Tensor decoded(const Encoded& values, at::ScalarType type, MemoryKind kind = MemoryKind::workspace) {
  at::Tensor out = empty(values.shape(), type, kind);
  const int64_t width = values.width(), rows = out.numel() / std::max<int64_t>(1, width);
  parallel_for(rows, 16, [&](int64_t begin, int64_t end) {
    char* const to =
        static_cast<char*>(out.data_ptr()) + begin * width * static_cast<int64_t>(out.element_size());
    values.decode({begin, end - begin, 0, width}, type, to, width);
  });
  return out;
}

void need_numbers(const Parameter& parameter, const char* what) {
  if (parameter.encoded() == nullptr) return;
  fail(Status::internal, "{} is stored as {} and cannot be {}", parameter.name, parameter.encoded()->form(),
       what);
}

}  // namespace

Reading Parameter::read() {
  if (encoded_) return Reading(decoded(*encoded_, encoded_type_));
  Reads::note(*this);
  return Reading(values_);
}

Reading Parameter::read(at::ScalarType type, Convert convert) {
  if (encoded_) return Reading(decoded(*encoded_, type));
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

void Parameter::keep_copies(bool keep, bool brief) {
  keeps_copies_ = keep;
  brief_copies_ = brief;
  if (!keep) copy_ = at::Tensor();
}

Writing Parameter::write() {
  need_numbers(*this, "written");
  return Writing(*this, values_);
}

void Parameter::replace(at::Tensor values) {
  if (has_trainer_) fail(Status::busy, "{} is being trained", name);
  need_numbers(*this, "replaced");
  values_ = std::move(values);
  copy_ = at::Tensor();
  ++version_;
}

void Parameter::hold(std::shared_ptr<const Encoded> values) {
  encoded_ = std::move(values);
  values_ = copy_ = at::Tensor();
  ++version_;
}

void Parameter::hold(at::Tensor numbers) {
  values_ = std::move(numbers);
  encoded_.reset();
  ++version_;
}

void Parameter::decode() { hold(decoded(*encoded_, encoded_type_, MemoryKind::weights)); }

void Parameter::begin_training_in(std::optional<at::ScalarType> gradient) {
  if (has_trainer_) fail(Status::busy, "the model is being trained by another trainer");
  if (gradient) need_numbers(*this, "trained");
  if (gradient) gradient_ = std::make_shared<Gradient>(shape().vec(), *gradient, device());
  has_trainer_ = true;
}

void Parameter::begin_training(at::Tensor gradient) {
  begin_training_in(gradient.defined() ? std::optional(gradient.scalar_type()) : std::nullopt);
  if (gradient_) gradient_->lend(std::move(gradient));
}

void Parameter::end_training() {
  gradient_.reset();
  keep_copies(false);
  has_trainer_ = false;
}

Gradient& Parameter::own_gradient() const {
  if (!has_gradient()) fail(Status::internal, "{} has no gradient", name);
  return *gradient_;
}

at::ScalarType Parameter::gradient_type() const { return own_gradient().type(); }
const at::Tensor& Parameter::gradient() const { return own_gradient().value(); }
void Parameter::collect_late() { own_gradient().late = true; }
void Parameter::collect_in_parts() { own_gradient().in_parts = true; }
void Parameter::end_gradient() { own_gradient().whole = true; }
void Parameter::drop_gradient() { own_gradient().drop(); }
void Parameter::on_complete(std::function<void()> event) { own_gradient().complete = std::move(event); }

}  // namespace trl::tensor
