// Where a model's weights come from: a directory of safetensors or a GGUF file, both under Hugging Face's
// names.
#pragma once
#include <ATen/ATen.h>

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "io/gguf.h"
#include "io/safetensors.h"
#include "model/model_config.h"
#include "tensor/parameter/encoded.h"

namespace trl::model {

class WeightSource {
 public:
  virtual ~WeightSource() = default;
  virtual std::string place(
      const std::string& name) const = 0;  // for messages: "<file>: tensor <its name there>"
  virtual const std::vector<int64_t>* shape(const std::string& name) const = 0;  // null: not there
  // Throws Error(format) unless the tensor is there with this shape.
  virtual void need(const std::string& name, const std::vector<int64_t>& shape) const;
  // For messages: what a shape is taken from, "config.json asks".
  virtual std::string asks(const std::string& name) const = 0;
  // Fills out (contiguous, that shape, float32 or bfloat16), rounding to nearest even.
  virtual void read(const std::string& name, at::Tensor& out) const = 0;
  // Elements [first, first + count) of the flattened tensor, which is there; both multiples of 256 where no
  // row ends before.
  virtual void read(const std::string& name, int64_t first, int64_t count, float* out) const = 0;
  virtual void forget(
      const std::string& name) const = 0;  // its pages may leave memory until it is read again
  virtual std::string type(const std::string& name) const = 0;  // of one that is there: "BF16", "Q8_0"
  // A tensor as it lies there, while the source lives; null: it is not there, or in blocks.
  virtual const io::TensorView* raw(const std::string&) const { return nullptr; }
  // A matrix as it lies there, decoded where it is read. turned: of a family that stores [in, out]; a GGUF
  // file has [out, in] all the same. Null: the source has none such.
  virtual std::shared_ptr<const tensor::Encoded> encoded(const std::string& /*name*/, bool /*turned*/) const {
    return nullptr;
  }
  // A matrix of numbers of this type, mapped; it must not be written to. Undefined: the source has none
  // such.
  virtual at::Tensor mapped(const std::string&, at::ScalarType) const { return {}; }
  // Throws Error(io) where a file was cut since it was opened: then what was read of it may be wrong.
  virtual void check() const {}
  // Tensors of the source, by their names there, that are none of `used` (Hugging Face's names).
  virtual std::vector<std::string> others(const std::set<std::string>& used) const = 0;
};

// The name in the files: the family's own, or another one that from_pretrained accepts, where that is what
// they have.
std::string stored_name(const WeightSource& source, const Family& family, const std::string& name);
// For messages, of a tensor that is missing: "the files have a, b, c and 3 more".
std::string names_there(const WeightSource& source, const std::string& name);
// What some files hold beside weights: angles and masks, which follow from the configuration.
bool is_buffer(std::string_view name);

// Whether the stored tensor, rounded to the type of values (contiguous, on the host, of its shape), is that
// one.
bool holds(const WeightSource& source, const std::string& name, const at::Tensor& values);

std::unique_ptr<WeightSource> directory_weights(io::Weights weights, const Family& family);
std::unique_ptr<WeightSource> gguf_weights(std::shared_ptr<const io::Gguf> file, const ModelConfig& config);

}  // namespace trl::model
