#include "checkpoint/memory_weights.h"

#include <algorithm>

#include "base/error.h"
#include "model/gguf_order.h"
#include "tensor/device.h"

namespace trl::checkpoint {

namespace {

using Fill = std::function<void(int64_t, int64_t, char*)>;

// Returns a function that decodes a weight in blocks to its dtype as it is written. first: of the part.
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

}  // namespace

bool has_own_head(model::Model& model) {
  const std::vector<tensor::Parameter*> all = model.parameters();
  return std::find(all.begin(), all.end(), &model.head()) == all.end();
}

std::vector<io::NamedTensor> tensors_of(model::Model& model, std::vector<at::Tensor>& host) {
  std::vector<io::NamedTensor> tensors;
  for (tensor::Parameter* parameter : model.parameters()) {
    const io::ElementType type =
        parameter->dtype() == at::kBFloat16 ? io::ElementType::bf16 : io::ElementType::f32;
    if (parameter->encoded() != nullptr) {
      for (const model::StoredPart& part : model.stored(*parameter))
        tensors.push_back(
            {part.name, type, part.shape(parameter->shape()), nullptr, decoding(*parameter, part)});
      continue;
    }
    host.push_back(tensor::on_host(*parameter->read()));
    const at::Tensor all = host.back();
    for (const model::StoredPart& part : model.stored(*parameter)) {
      const at::Tensor& values = host.emplace_back(part.of(all).contiguous());
      tensors.push_back({part.name, type, values.sizes().vec(), values.data_ptr()});
    }
  }
  if (has_own_head(model)) {
    host.push_back(tensor::on_host(*model.head().read()));
    const bool narrow = host.back().scalar_type() == at::kBFloat16;
    tensors.push_back({std::string(model.config().family->names.head) + ".weight",
                       narrow ? io::ElementType::bf16 : io::ElementType::f32, host.back().sizes().vec(),
                       host.back().data_ptr()});
  }
  for (const model::Model::Carried& carried : model.carried())
    tensors.push_back({carried.name, carried.view->type, carried.view->shape, carried.view->data});
  return tensors;
}

MemoryWeights::MemoryWeights(model::Model& model) : model_(model) {
  for (io::NamedTensor& tensor : tensors_of(model, host_)) tensors_.emplace(tensor.name, std::move(tensor));
}

const std::vector<int64_t>* MemoryWeights::shape(const std::string& name) const {
  const auto found = tensors_.find(name);
  return found == tensors_.end() ? nullptr : &found->second.shape;
}

void MemoryWeights::read(const std::string&, at::Tensor&) const {
  fail(Status::internal, "a model in memory is read in parts");
}

void MemoryWeights::read(const std::string& name, int64_t first, int64_t count, float* out) const {
  const io::NamedTensor& tensor = tensors_.at(name);
  if (tensor.data != nullptr) return io::read_floats(tensor.type, tensor.data, first, count, out);
  std::vector<char> numbers(static_cast<size_t>(count) * io::element_size(tensor.type));
  tensor.fill(first, count, numbers.data());
  io::read_floats(tensor.type, numbers.data(), 0, count, out);
}

std::vector<std::string> MemoryWeights::others(const std::set<std::string>& used) const {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : tensors_) {
    if (!used.contains(name)) names.push_back(name);
  }
  return names;
}

}  // namespace trl::checkpoint
