// A weight of a model. Its values are read and written in scopes, so that only the parameter knows where and
// in which form they are stored. Gradients are not autograd's: the backward of each kernel adds to them
// through a Use (use.h), so that a gradient takes memory from its first addition until it is dropped.
#pragma once
#include <ATen/ATen.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tensor/parameter/encoded.h"
#include "tensor/parameter/gradient.h"

namespace trl::tensor {

class Parameter;

// The values, readable during its lifetime. Encoded ones are decoded, all of them; the same scope will load
// values that are offloaded or sharded.
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

// The values themselves, to be changed in place during its lifetime. A copy in another type then becomes out
// of date.
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

// Movable only before its first use; exclusive.
class Parameter {
 public:
  Parameter(std::string name, at::Tensor values);  // contiguous
  // Frozen: never written, replaced or trained. type: the type that readers see.
  Parameter(std::string name, std::shared_ptr<const Encoded> values, at::ScalarType type);
  Parameter(Parameter&&) = default;

  std::string name;             // Hugging Face's, "model.layers.0.self_attn.q_proj.weight"
  bool decay = true;            // whether weight decay applies
  bool trainable = true;        // false: frozen, a trainer that begins gives it no gradient and no state
  bool embedding = false;       // its rows are looked up
  int64_t padding_row = -1;     // an embedding's row whose lookups train nothing (nn.Embedding's padding_idx)
  const char* fixed = nullptr;  // why a host must not change the values; null: it may

  at::IntArrayRef shape() const { return encoded_ ? encoded_->shape() : values_.sizes(); }
  int64_t size(int64_t dimension) const { return shape().at(static_cast<size_t>(dimension)); }
  int64_t count() const { return c10::multiply_integers(shape()); }
  at::ScalarType dtype() const { return encoded_ ? encoded_type_ : values_.scalar_type(); }
  at::Device device() const { return encoded_ ? at::Device(at::kCPU) : values_.device(); }
  // Null: the values are numbers of dtype(). A kernel that supports it decodes them piece by piece.
  const Encoded* encoded() const { return encoded_.get(); }

  // Fills `to` with the values of `from`, which has another type and the same shape.
  using Convert = void (*)(const at::Tensor& from, const at::Tensor& to);
  Reading read();  // in dtype()
  // In `type`: converted if the values have another type; once for all readings until they change, if copies
  // are kept.
  Reading read(at::ScalarType type, Convert convert);
  // For a kernel that converts piece by piece: in `type` only if that costs no memory beyond the copies that
  // are kept; else as stored.
  Reading read_either(at::ScalarType type, Convert convert);
  // Sets whether copies are kept from now on; a copy takes the size of its type for each element. brief:
  // copies that are read by a piece of the graph that backward computes again are not kept in between
  // (Reads::end_piece).
  void keep_copies(bool keep, bool brief = false);
  bool keeps_copies() const { return keeps_copies_; }
  bool copies_are_brief() const { return brief_copies_; }
  void drop_copy() { copy_ = at::Tensor(); }  // the next reading makes it again
  Writing write();
  // A number that is larger after every change of the values.
  uint64_t version() const { return version_; }
  void replace(at::Tensor values);  // may change the shape; not while a trainer lives

  // The encoded values; null: the values are numbers.
  const std::shared_ptr<const Encoded>& blocks() const { return encoded_; }
  // Replaces the encoded values of a parameter that was made with such, by ones of the same shape.
  void hold(std::shared_ptr<const Encoded> values);
  // Replace the encoded values by numbers of dtype() until the other hold() is called: hold() by these,
  // decode() by the decoded values.
  void hold(at::Tensor numbers);
  void decode();

  // A trainer exists from here until end_training(). Throws Error(busy) if another trainer exists. With a
  // type, a gradient of that type (kFloat or kBFloat16) is collected; without, none.
  void begin_training_in(std::optional<at::ScalarType> gradient);
  // The same with the caller's buffer, of the parameter's shape; undefined: none is collected.
  void begin_training(at::Tensor gradient);
  void end_training();
  bool has_trainer() const { return has_trainer_; }
  // Whether a gradient is collected. If not, no kernel does any arithmetic for it.
  bool has_gradient() const { return gradient_ != nullptr; }
  // Both need has_gradient().
  at::ScalarType gradient_type() const;
  const at::Tensor& gradient() const;  // the sum since it was dropped; zero: nothing was added
  bool gradient_is_whole() const { return gradient_ != nullptr && gradient_->whole; }
  void end_gradient();      // sets Gradient::whole until it is dropped
  void drop_gradient();     // frees its memory
  void collect_late();      // sets Gradient::late from now on
  void collect_in_parts();  // sets Gradient::in_parts until it is dropped
  // Called in each backward pass as soon as nothing will add to the gradient any more, on the thread of that
  // backward. See Use.
  void on_complete(std::function<void()> event);

 private:
  friend class Use;
  friend class Writing;
  Gradient& own_gradient() const;  // throws Error(internal) if there is none
  at::Tensor values_;
  std::shared_ptr<const Encoded> encoded_;  // instead of values_
  at::ScalarType encoded_type_ = at::kFloat;
  at::Tensor copy_;  // in another type, if copies are kept
  bool copy_is_current_ = false;
  bool keeps_copies_ = false;
  bool brief_copies_ = false;
  bool has_trainer_ = false;
  uint64_t version_ = 0;
  std::shared_ptr<Gradient> gradient_;
};

// Sets Parameter::fixed of these while it lives, where no other reason is set.
class Fixing {
 public:
  Fixing(std::vector<Parameter*> parameters, const char* why) : parameters_(std::move(parameters)) {
    std::erase_if(parameters_, [](const Parameter* p) { return p->fixed != nullptr; });
    for (Parameter* p : parameters_) p->fixed = why;
  }
  ~Fixing() {
    for (Parameter* p : parameters_) p->fixed = nullptr;
  }
  Fixing(const Fixing&) = delete;
  Fixing& operator=(const Fixing&) = delete;

 private:
  std::vector<Parameter*> parameters_;
};

}  // namespace trl::tensor
