// A weight of a model. Its values are read and written in scopes, so that only the parameter
// knows where and in which form they are stored. Gradients are not autograd's: the backward of each kernel
// adds to them through a Use (use.h), so that a gradient takes memory from its first addition on, and until
// it is dropped.
#pragma once
#include <ATen/ATen.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "tensor/parameter/encoded.h"
#include "tensor/parameter/gradient.h"

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
  bool embedding = false;    // rows are looked up in it
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
  // From now on; a copy takes as much as it has elements, times those of its type. brief: what a piece of the
  // graph reads that is computed again in backward is not kept between (Reads::end_piece).
  void keep_copies(bool keep, bool brief = false);
  bool keeps_copies() const { return keeps_copies_; }
  bool copies_are_brief() const { return brief_copies_; }
  void drop_copy() { copy_ = at::Tensor(); }  // the next reading makes it again
  Writing write();
  void replace(at::Tensor values);  // by those of another shape; not while a trainer lives

  // The encoded values; null: there are numbers.
  const std::shared_ptr<const Encoded>& blocks() const { return encoded_; }
  // Of one that was made with encoded values: it has these from here on, of the same shape.
  void hold(std::shared_ptr<const Encoded> values);
  // Its values are numbers of dtype() until hold() is called: these, or what they decode to.
  void hold(at::Tensor numbers);
  void decode();

  // A trainer lives from here to end_training(). Error(busy): another trainer lives. With a type, a gradient
  // of that type (kFloat or kBFloat16) is collected; without, none.
  void begin_training_in(std::optional<at::ScalarType> gradient);
  // The same into a buffer of the caller's, of the parameter's shape; undefined: none is collected.
  void begin_training(at::Tensor gradient);
  void end_training();
  bool has_trainer() const { return has_trainer_; }
  // Is a gradient collected? Where not, no kernel does any arithmetic for it.
  bool has_gradient() const { return gradient_ != nullptr; }
  at::ScalarType gradient_type() const;  // these: has_gradient()
  const at::Tensor& gradient() const;    // what was added since it was dropped; zero: nothing
  void drop_gradient();                  // with its memory
  void collect_late();                   // from now on: Gradient::late
  void collect_in_parts();               // until it is dropped: Gradient::in_parts
  // Called in each backward pass as soon as nothing will add to the gradient any more, on the thread of that
  // backward. See Use.
  void on_complete(std::function<void()> event);

 private:
  friend class Use;
  friend class Writing;
  Gradient& own_gradient() const;  // Error(internal): it has none
  at::Tensor values_;
  std::shared_ptr<const Encoded> encoded_;  // in place of values_
  at::ScalarType encoded_type_ = at::kFloat;
  at::Tensor copy_;  // in another type, if copies are kept
  bool copy_is_current_ = false;
  bool keeps_copies_ = false;
  bool brief_copies_ = false;
  bool has_trainer_ = false;
  std::shared_ptr<Gradient> gradient_;
};

}  // namespace trl::tensor
