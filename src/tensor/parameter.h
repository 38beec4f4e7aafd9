// A weight of a model. Its values are read and written in scopes, so that where they lie and in which form is
// the parameter's own affair. Gradients are not autograd's: the backward of each kernel adds to them through
// a Use (use.h), so a gradient is written once and its buffer can be a view into one flat bucket.
#pragma once
#include <ATen/ATen.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "tensor/encoded.h"

namespace trl::tensor {

class Parameter;

// The values, to be read while this lives. Encoded ones are decoded, all of them; values that are offloaded
// or sharded will be brought here by the same scope.
class Reading {
 public:
  Reading(Reading&&) = default;
  const at::Tensor& operator*() const& { return values_; }
  at::Tensor operator*() && { return values_; }
  const at::Tensor* operator->() const { return &values_; }

 private:
  friend class Parameter;
  explicit Reading(at::Tensor values) : values_(std::move(values)) {}
  at::Tensor values_;
};

// The values themselves, to be changed in place while this lives. Then a copy in another type is out of date.
class Writing {
 public:
  Writing(Writing&& other) noexcept
      : parameter_(std::exchange(other.parameter_, nullptr)), values_(other.values_) {}
  Writing& operator=(Writing&&) = delete;
  ~Writing();
  const at::Tensor& operator*() const& { return values_; }
  at::Tensor operator*() && { return values_; }
  const at::Tensor* operator->() const { return &values_; }

 private:
  friend class Parameter;
  Writing(Parameter& parameter, at::Tensor values) : parameter_(&parameter), values_(std::move(values)) {}
  Parameter* parameter_;
  const at::Tensor values_;
};

// A gradient while a trainer lives.
struct Gradient {
  at::Tensor sum;    // of the parameter's shape
  int64_t uses = 0;  // that graphs have made and not yet ended
  std::function<void()> complete = {};
};

// Moved only before it is used; exclusive.
class Parameter {
 public:
  Parameter(std::string name, at::Tensor values);  // contiguous
  // Frozen: it is never written, replaced or trained. type: what its readers take it for.
  Parameter(std::string name, std::shared_ptr<const Encoded> values, at::ScalarType type);
  Parameter(Parameter&&) = default;

  std::string name;          // Hugging Face's, "model.layers.0.self_attn.q_proj.weight"
  bool decay = true;         // weight decay applies
  bool trainable = true;     // false: frozen, a trainer that begins gives it no gradient and no state
  int64_t padding_row = -1;  // of an embedding: looking it up trains nothing (nn.Embedding's padding_idx)

  at::IntArrayRef shape() const { return encoded_ ? encoded_->shape() : values_.sizes(); }
  int64_t size(int64_t dimension) const { return shape().at(static_cast<size_t>(dimension)); }
  int64_t count() const { return c10::multiply_integers(shape()); }
  at::ScalarType dtype() const { return encoded_ ? encoded_type_ : values_.scalar_type(); }
  at::Device device() const { return encoded_ ? at::Device(at::kCPU) : values_.device(); }
  // Null: the values are numbers of dtype(). A kernel that can decodes them piece by piece.
  const Encoded* encoded() const { return encoded_.get(); }

  // Fills `to` with the values of `from`, which has another type and the same shape.
  using Convert = void (*)(const at::Tensor& from, const at::Tensor& to);
  Reading read();  // in dtype()
  // In `type`: converted where they have another, once for all readings until they change if copies are kept.
  Reading read(at::ScalarType type, Convert convert);
  // For a kernel that converts by itself, piece by piece: in `type` only if that costs no memory beyond the
  // copies that are kept; else as they are stored.
  Reading read_either(at::ScalarType type, Convert convert);
  void keep_copies(
      bool keep);  // from now on; a copy takes as much as it has elements, times those of its type
  bool keeps_copies() const { return keeps_copies_; }
  Writing write();
  void replace(at::Tensor values);  // by those of another shape; not while a trainer lives

  // The encoded values; null: there are numbers.
  const std::shared_ptr<const Encoded>& blocks() const { return encoded_; }
  // Of one that was made with encoded values: it has these from here on, of the same shape.
  void hold(std::shared_ptr<const Encoded> values);
  // Its values are numbers of dtype() until hold() is called: these, or what they decode to.
  void hold(at::Tensor numbers);
  void decode();

  // A trainer lives from here to end_training(). gradient: zero, of the parameter's shape; undefined: it is
  // not trained. Error(busy): another trainer lives.
  void begin_training(at::Tensor gradient);
  void end_training();
  bool has_trainer() const { return has_trainer_; }
  // Is a gradient collected? Where not, no kernel does any arithmetic for it.
  bool has_gradient() const { return gradient_ != nullptr; }
  const at::Tensor& gradient() const;  // has_gradient()
  // Called in each backward pass as soon as nothing will add to the gradient any more, on the thread of that
  // backward: here a step within backward, sharding and offloading will begin. See Use.
  void on_complete(std::function<void()> event);  // has_gradient()

 private:
  friend class Use;
  friend class Writing;
  at::Tensor values_;
  std::shared_ptr<const Encoded> encoded_;  // in place of values_
  at::ScalarType encoded_type_ = at::kFloat;
  at::Tensor copy_;  // in another type, if copies are kept
  bool copy_is_current_ = false;
  bool keeps_copies_ = false;
  bool has_trainer_ = false;
  std::shared_ptr<Gradient> gradient_;
};

}  // namespace trl::tensor
