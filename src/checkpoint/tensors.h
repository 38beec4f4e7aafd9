// The tensors of a model as its files hold them: their names, shapes, types and numbers, whatever form the
// parameters have.
#pragma once
#include <ATen/ATen.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "io/safetensors.h"
#include "model/model.h"

namespace trl::checkpoint {

// A tensor, and the parameter that it is or is a part of.
struct SavedTensor {
  model::StoredPart part;                   // with its name
  tensor::Parameter* parameter = nullptr;   // null: it is carried
  const io::TensorView* carried = nullptr;  // as in the model's files

  const std::string& name() const { return part.name; }
  std::vector<int64_t> shape() const;
  io::ElementType type() const;
  // Whether its numbers are decoded or computed when they are read.
  bool in_blocks() const { return parameter != nullptr && parameter->encoded() != nullptr; }
  // The numbers of a parameter that is not in blocks: in its own memory.
  at::Tensor numbers() const { return part.of(*parameter->read()); }
};

// Writes the elements [first, first + count) of a tensor.
using Fill = std::function<void(int64_t first, int64_t count, char* out)>;
Fill on_all_threads(Fill fill, size_t element_bytes);

// Returns all tensors of the model under the names of its files.
std::vector<SavedTensor> saved_tensors(model::Model& model);
// Returns the one of this name.
std::optional<SavedTensor> find_saved(model::Model& model, std::string_view name);
// Returns the numbers on the host, for a file. host: owns the memory that the result points to.
io::NamedTensor for_file(const SavedTensor& tensor, std::vector<at::Tensor>& host);
// The same for all tensors of the model.
std::vector<io::NamedTensor> tensors_of(model::Model& model, std::vector<at::Tensor>& host);
// Returns a copy of the numbers, on their device, counted as weights.
at::Tensor copy_of(const SavedTensor& tensor);

// Returns whether head and embedding, which are one in the model's files, are two now, because an adapter
// that separates them was merged.
bool has_own_head(model::Model& model);

// Returns the type in files of a tensor's numbers, and the reverse.
io::ElementType element_type(const at::Tensor& tensor);
at::ScalarType scalar_type(io::ElementType type);
io::NamedTensor named_tensor(std::string name,
                             const at::Tensor& values);  // values: on the host, which it refers to

}  // namespace trl::checkpoint
