// The source of a model's weights: tensors of a directory or of memory, or a GGUF file, under Hugging Face's
// names.
#pragma once
#include <ATen/ATen.h>

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "io/gguf.h"
#include "io/safetensors.h"
#include "model/config/model_config.h"
#include "tensor/parameter/encoded.h"

namespace trl::model {

// The names in `all`, which is a map, that are not in `used`.
template <typename Map>
std::vector<std::string> names_except(const Map& all, const std::set<std::string>& used) {
  std::vector<std::string> names;
  for (const auto& [name, value] : all)
    if (!used.contains(name)) names.push_back(name);
  return names;
}

class WeightSource {
 public:
  virtual ~WeightSource() = default;
  // For messages: "<file>: tensor <its name there>".
  virtual std::string place(const std::string& name) const = 0;
  virtual const std::vector<int64_t>* shape(const std::string& name) const = 0;  // null: no such tensor
  // Throws Error(format) unless the tensor exists with this shape.
  virtual void need(const std::string& name, const std::vector<int64_t>& shape) const;
  // For messages: the origin of a required shape, "config.json asks".
  virtual std::string asks(const std::string& name) const = 0;
  // Fills out (contiguous, that shape, float32 or bfloat16), rounding to nearest even.
  virtual void read(const std::string& name, at::Tensor& out) const = 0;
  // Brings elements of a tensor into memory, if they are in a file of the host; on the thread of the call.
  virtual void fetch(const std::string& /*name*/, int64_t /*first*/, int64_t /*count*/) const {}
  // Elements [first, first + count) of the flattened tensor, which must exist and were fetched; both are
  // multiples of 256 unless a row ends before.
  virtual void read(const std::string& name, int64_t first, int64_t count, float* out) const = 0;
  // Allows its pages to leave memory until it is read again.
  virtual void forget(const std::string& name) const = 0;
  // The type of an existing tensor: "BF16", "Q8_0".
  virtual std::string type(const std::string& name) const = 0;
  // A tensor as stored, valid while the source lives; null: it does not exist, or is in blocks.
  virtual const io::TensorView* raw(const std::string&) const { return nullptr; }
  // A matrix as stored, decoded on reading. turned: for a family that stores [in, out]; a GGUF file still has
  // [out, in]. Null: the source has no such matrix.
  virtual std::shared_ptr<const tensor::Encoded> encoded(const std::string& /*name*/, bool /*turned*/) const {
    return nullptr;
  }
  // A matrix of numbers of this type, mapped; it must not be written to. Undefined: the source has no such
  // matrix.
  virtual at::Tensor mapped(const std::string&, at::ScalarType) const { return {}; }
  // Throws Error(io) if a file was truncated since it was opened: data read from it may then be wrong.
  virtual void check() const {}
  // Tensors of the source, under its own names, that are not in `used` (Hugging Face's names).
  virtual std::vector<std::string> others(const std::set<std::string>& used) const = 0;
};

// The name in the files: the family's own, or another one that from_pretrained accepts, if the files have
// that.
std::string stored_name(const WeightSource& source, const Family& family, const std::string& name);
// Whether the name is that of a buffer that some files hold next to weights: angles and masks, which follow
// from the configuration.
bool is_buffer(std::string_view name);

// Whether the stored tensor, rounded to the type of values (contiguous, on the host, of its shape), equals
// them.
bool holds(const WeightSource& source, const std::string& name, const at::Tensor& values);

std::unique_ptr<WeightSource> plain_weights(io::Weights weights, const Family& family);
std::unique_ptr<WeightSource> gguf_weights(std::shared_ptr<const io::Gguf> file, const ModelConfig& config);

}  // namespace trl::model
