#include "checkpoint/tensors.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "model/gguf/names.h"
#include "tensor/device.h"
#include "tensor/memory/counted.h"
#include "tensor/threads/parallel.h"

namespace trl::checkpoint {

namespace {

constexpr std::pair<at::ScalarType, io::ElementType> kTypes[] = {
    {at::kFloat, io::ElementType::f32}, {at::kBFloat16, io::ElementType::bf16},
    {at::kHalf, io::ElementType::f16},  {at::kDouble, io::ElementType::f64},
    {at::kLong, io::ElementType::i64},  {at::kInt, io::ElementType::i32},
    {at::kByte, io::ElementType::u8},
};

// Returns a function that decodes a weight in blocks to its dtype. first: of the part.
Fill decoding(const tensor::Parameter& parameter, const model::StoredPart& part) {
  const tensor::Encoded& values = *parameter.encoded();
  const int64_t width = values.width(), size = static_cast<int64_t>(c10::elementSize(parameter.dtype()));
  if (part.transposed) {
    return [&values, type = parameter.dtype(), rows = parameter.size(0), size](int64_t first, int64_t count,
                                                                               char* out) {
      model::each_row(first, count, rows, [&](int64_t column, int64_t row, int64_t part_rows) {
        values.decode({row, part_rows, column, 1}, type, out, 1);
        out += part_rows * size;
      });
    };
  }
  int64_t row = 0;  // first row of the part
  if (part.expert >= 0) row = part.expert * parameter.size(1) + (part.rows < 0 ? 0 : part.first);
  return [&values, type = parameter.dtype(), width, size, row](int64_t first, int64_t count, char* out) {
    model::each_row(first, count, width, [&](int64_t r, int64_t column, int64_t columns) {
      values.decode({row + r, 1, column, columns}, type, out, width);
      out += columns * size;
    });
  };
}

// Calls visit(name, made) for each tensor until it returns true; made() returns the tensor.
template <class Visit>
void each_saved(model::Model& model, const Visit& visit) {
  for (tensor::Parameter* const parameter : model.parameters()) {
    const std::vector<model::StoredPart>* const parts = model.parts_of(*parameter);
    if (parts == nullptr) {
      if (visit(parameter->name, [&] { return SavedTensor{{.name = parameter->name}, parameter}; })) return;
      continue;
    }
    for (const model::StoredPart& part : *parts)
      if (visit(part.name, [&] { return SavedTensor{part, parameter}; })) return;
  }
  if (has_own_head(model)) {
    const std::string head = std::string(model.config().family->names.head) + ".weight";
    if (visit(head, [&] { return SavedTensor{{.name = head}, &model.head()}; })) return;
  }
  for (const model::Model::Carried& one : model.carried())
    if (visit(one.name, [&] { return SavedTensor{{.name = one.name}, nullptr, one.view}; })) return;
}

}  // namespace

Fill on_all_threads(Fill fill, size_t element_bytes) {
  constexpr int64_t kPart = 4096;  // elements: a multiple of every block
  return [fill = std::move(fill), size = static_cast<int64_t>(element_bytes)](int64_t first, int64_t count,
                                                                              char* out) {
    tensor::parallel_for((count + kPart - 1) / kPart, 4, [&](int64_t begin, int64_t end) {
      const int64_t from = begin * kPart, to = std::min(end * kPart, count);
      fill(first + from, to - from, out + from * size);
    });
  };
}

std::vector<int64_t> SavedTensor::shape() const {
  return parameter != nullptr ? part.shape(parameter->shape()) : carried->shape;
}

io::ElementType SavedTensor::type() const {
  if (parameter == nullptr) return carried->type;
  return parameter->dtype() == at::kBFloat16 ? io::ElementType::bf16 : io::ElementType::f32;
}

std::vector<SavedTensor> saved_tensors(model::Model& model) {
  std::vector<SavedTensor> all;
  each_saved(model, [&](const auto&, const auto& made) {
    all.push_back(made());
    return false;
  });
  return all;
}

std::optional<SavedTensor> find_saved(model::Model& model, std::string_view name) {
  std::optional<SavedTensor> found;
  each_saved(model, [&](const std::string& own, const auto& made) {
    if (own == name) found = made();
    return found.has_value();
  });
  return found;
}

io::NamedTensor for_file(const SavedTensor& tensor, std::vector<at::Tensor>& host) {
  if (tensor.parameter == nullptr)
    return {tensor.name(), tensor.type(), tensor.shape(), tensor.carried->data};
  if (!tensor.in_blocks())
    return named_tensor(tensor.name(), host.emplace_back(tensor::on_host(tensor.numbers()).contiguous()));
  return {tensor.name(), tensor.type(), tensor.shape(), nullptr, decoding(*tensor.parameter, tensor.part)};
}

std::vector<io::NamedTensor> tensors_of(model::Model& model, std::vector<at::Tensor>& host) {
  std::vector<io::NamedTensor> tensors;
  for (const SavedTensor& tensor : saved_tensors(model)) tensors.push_back(for_file(tensor, host));
  return tensors;
}

at::Tensor copy_of(const SavedTensor& tensor) {
  constexpr auto kKind = tensor::MemoryKind::weights;
  if (tensor.parameter != nullptr && !tensor.in_blocks()) {
    const at::Tensor values = tensor.numbers();
    at::Tensor copy = tensor::empty_like(values, kKind);
    tensor::copy_in_parts(copy, values);
    return copy;
  }
  at::Tensor copy = tensor::empty(tensor.shape(), scalar_type(tensor.type()), kKind);
  if (tensor.carried != nullptr) {
    std::memcpy(copy.data_ptr(), tensor.carried->data, copy.nbytes());
    return copy;
  }
  on_all_threads(decoding(*tensor.parameter, tensor.part), copy.element_size())(
      0, copy.numel(), static_cast<char*>(copy.data_ptr()));
  return copy;
}

bool has_own_head(model::Model& model) {
  const std::vector<tensor::Parameter*> all = model.parameters();
  return std::ranges::find(all, &model.head()) == all.end();
}

io::ElementType element_type(const at::Tensor& tensor) {
  const auto* const found =
      std::ranges::find(kTypes, tensor.scalar_type(), &std::pair<at::ScalarType, io::ElementType>::first);
  if (found != std::end(kTypes)) return found->second;
  fail(Status::internal, "an optimizer state of type {} cannot be stored in a file",
       c10::toString(tensor.scalar_type()));
}

at::ScalarType scalar_type(io::ElementType type) {
  const auto* const found =
      std::ranges::find(kTypes, type, &std::pair<at::ScalarType, io::ElementType>::second);
  if (found != std::end(kTypes)) return found->first;
  fail(Status::internal, "numbers of this type are none that tensors have");
}

io::NamedTensor named_tensor(std::string name, const at::Tensor& values) {
  return {std::move(name), element_type(values), values.sizes().vec(), values.data_ptr()};
}

}  // namespace trl::checkpoint
