#include "entry/tensors.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/text/nearest.h"
#include "checkpoint/tensors.h"
#include "tensor/device.h"
#include "tensor/memory/counted.h"
#include "tensor/threads/parallel.h"

namespace trl::entry {

namespace {

using checkpoint::SavedTensor;

SavedTensor of_adapter(const model::Adapter::Named& one) { return {{.name = one.name}, one.parameter}; }

std::vector<SavedTensor> all_tensors(model::Model& model) {
  std::vector<SavedTensor> all = checkpoint::saved_tensors(model);
  for (const auto& adapter : model.adapters().all())
    for (const model::Adapter::Named& one : adapter->named()) all.push_back(of_adapter(one));
  return all;
}

[[noreturn]] void fail_unknown(model::Model& model, std::string_view name) {
  const model::Names& names = model.config().family->names;
  if (model.config().labels == 0 && name == std::string(names.head) + ".weight")
    fail(Status::not_found, "the head of this model is its embedding: {}.weight", names.embedding);
  const std::vector<SavedTensor> all = all_tensors(model);
  std::vector<std::string_view> candidates;
  for (const SavedTensor& one : all) candidates.push_back(one.name());
  const std::string_view meant = base::nearest(name, candidates);
  fail(Status::not_found, "the model has no tensor \"{}\"; {}", name,
       meant.empty() ? "trl_model_get_tensors lists those that it has"
                     : fmt::format("did you mean \"{}\"?", meant));
}

SavedTensor get(model::Model& model, std::string_view name) {
  if (std::optional<SavedTensor> found = checkpoint::find_saved(model, name)) return *std::move(found);
  for (const auto& adapter : model.adapters().all())
    for (const model::Adapter::Named& one : adapter->named())
      if (one.name == name) return of_adapter(one);
  fail_unknown(model, name);
}

// "nf4" for "NF4", "float16" for "F16"
std::string form_name(std::string form) {
  using enum io::ElementType;
  for (const io::ElementType type : {f32, f16, bf16, f64, i64, i32, u8})
    if (form == io::element_name(type)) return std::string(io::element_dtype(type));
  for (char& c : form) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return form;
}

std::string stored_form(const SavedTensor& tensor) {
  if (tensor.carried != nullptr) return form_name(tensor.carried->type_name);
  if (tensor.in_blocks()) return form_name(tensor.parameter->encoded()->form());
  return std::string(io::element_dtype(tensor.type()));
}

engine::HeldTensor held(const at::Tensor& values) {
  tensor::finish(values);
  return {.type = checkpoint::element_type(values),
          .shape = values.sizes().vec(),
          .data = values.data_ptr(),
          .gpu = values.is_cpu() ? -1 : static_cast<int32_t>(values.get_device()),
          .owner = std::make_shared<at::Tensor>(values)};
}

at::Tensor view_of(const SavedTensor& tensor) {
  if (tensor.carried != nullptr)
    fail(Status::unsupported, "{} is not in memory, but read in its file: read a copy", tensor.name());
  if (tensor.in_blocks()) {
    fail(Status::unsupported, "{} is held as {}, so no memory has its numbers as {}: read a copy",
         tensor.name(), tensor.parameter->encoded()->form(), io::element_dtype(tensor.type()));
  }
  const at::Tensor values = tensor.numbers();
  if (!values.is_contiguous())
    fail(Status::unsupported, "{} is held in another order of its numbers: read a copy", tensor.name());
  return values;
}

at::Tensor gradient_of(const SavedTensor& tensor) {
  if (tensor.parameter == nullptr || !tensor.parameter->has_gradient())
    fail(Status::not_found, "{} is not trained, so it has no gradient", tensor.name());
  if (!tensor.parameter->gradient_is_whole()) {
    fail(Status::not_found,
         "{} has no gradient now: gradients are there between trl_trainer_backward and trl_trainer_update",
         tensor.name());
  }
  const at::Tensor values = tensor.part.of(tensor.parameter->gradient());
  at::Tensor copy = tensor::empty_like(values, tensor::MemoryKind::gradients);
  tensor::copy_in_parts(copy, values);
  return copy;
}

void check_copied(const SavedTensor& tensor) {
  if (tensor.type() == io::ElementType::other)
    fail(Status::unsupported, "{} is of type {}, which cannot be handed out", tensor.name(),
         tensor.carried->type_name);
}

void check_writable(const model::Model& model, const SavedTensor& tensor) {
  if (tensor.parameter == nullptr) {
    fail(Status::unsupported, "{} belongs to no part of the language model: it is saved as it was read",
         tensor.name());
  }
  if (tensor.in_blocks()) {
    fail(Status::unsupported,
         "{} is held as {}, which is never changed: open the model without quantisation, or write an adapter",
         tensor.name(), tensor.parameter->encoded()->form());
  }
  if (tensor.parameter->fixed != nullptr)
    fail(Status::unsupported, "{} cannot be written: {}", tensor.name(), tensor.parameter->fixed);
  if (const model::Adapter* const merged = model.adapters().merged()) {
    fail(Status::unsupported,
         "adapter \"{}\" is merged into the weights, and undoing that restores them: undo it before {} is "
         "written",
         merged->name(), tensor.name());
  }
}

void check_shape(const SavedTensor& tensor, std::span<const int64_t> given) {
  const std::vector<int64_t> own = tensor.shape();
  if (std::ranges::equal(own, given)) return;
  fail(Status::invalid_argument, "{} has shape [{}], and the tensor has [{}]", tensor.name(),
       fmt::join(own, ", "), fmt::join(given, ", "));
}

// The given numbers as a tensor; ATen has no strides below 0.
at::Tensor tensor_of(const engine::GivenTensor& given) {
  const at::ScalarType type = checkpoint::scalar_type(given.type);
  const auto size = static_cast<int64_t>(c10::elementSize(type));
  const char* first = static_cast<const char*>(given.data);
  std::vector<int64_t> strides, turned;
  for (size_t i = 0; i < given.shape.size(); ++i) {
    strides.push_back(std::abs(given.strides[i]));
    if (given.strides[i] >= 0 || given.shape[i] == 0) continue;
    first += (given.shape[i] - 1) * given.strides[i] * size;
    turned.push_back(static_cast<int64_t>(i));
  }
  const at::Tensor values =
      at::from_blob(const_cast<char*>(first), at::IntArrayRef(given.shape.data(), given.shape.size()),
                    strides, at::TensorOptions().dtype(type));
  return turned.empty() ? values : values.flip(turned);
}

}  // namespace

void list_tensors(model::Model& model, engine::TensorList& list) {
  for (const SavedTensor& one : all_tensors(model)) {
    const std::vector<int64_t> shape = one.shape();
    const std::string stored = stored_form(one);
    const bool trained = one.parameter != nullptr && one.parameter->has_gradient();
    const bool known = one.type() != io::ElementType::other;
    list.add({.name = one.name(),
              .shape = shape,
              .dtype = known ? io::element_dtype(one.type()) : stored,
              .stored = stored,
              .trained = trained,
              .gradient = trained && one.parameter->gradient_is_whole()});
  }
}

engine::HeldTensor read_tensor(model::Model& model, std::string_view name, engine::TensorRead what) {
  const SavedTensor tensor = get(model, name);
  if (what == engine::TensorRead::gradient) return held(gradient_of(tensor));
  if (what == engine::TensorRead::view) return held(view_of(tensor));
  check_copied(tensor);
  const at::Tensor copy = checkpoint::copy_of(tensor);
  model.check_files();
  return held(copy);
}

void write_tensor(model::Model& model, std::string_view name, const engine::GivenTensor& values) {
  const SavedTensor tensor = get(model, name);
  check_shape(tensor, values.shape);
  check_writable(model, tensor);
  const at::Tensor from = tensor_of(values);
  tensor::copy_in_parts(tensor.part.of(*tensor.parameter->write()), from);
  for (const auto& adapter : model.adapters().all()) adapter->follow(*tensor.parameter);
}

// A part of a parameter, or a parameter of a trainer, stays where it lies.
void exchange_tensor(model::Model& model, std::string_view name, engine::HeldTensor& other) {
  const SavedTensor tensor = get(model, name);
  check_shape(tensor, other.shape);
  check_writable(model, tensor);
  tensor::Parameter& parameter = *tensor.parameter;
  const at::Tensor given = *static_cast<const at::Tensor*>(other.owner.get());
  at::Tensor own = tensor.numbers();
  if (given.scalar_type() != own.scalar_type())
    fail(Status::invalid_argument, "{} is held as {}, and the copy as {}", tensor.name(),
         c10::toString(own.scalar_type()), c10::toString(given.scalar_type()));
  const bool stays = parameter.has_trainer() || own.sizes() != parameter.shape() || !own.is_contiguous();
  if (stays) own = checkpoint::copy_of(tensor);
  engine::HeldTensor before = held(own);
  if (stays)
    tensor::copy_in_parts(tensor.part.of(*parameter.write()), given);
  else
    parameter.replace(given);
  other = std::move(before);
  for (const auto& adapter : model.adapters().all()) adapter->follow(parameter);
}

}  // namespace trl::entry
