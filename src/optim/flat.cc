#include "optim/flat.h"

#include "tensor/memory/counted.h"
#include "tensor/threads/parallel.h"

namespace trl::optim {

namespace {

constexpr int64_t kAlignment = 64;  // elements: 64 bytes of the smallest type
constexpr int64_t kBytesPerPart = 1 << 20;

int64_t padded(int64_t count) { return (count + kAlignment - 1) / kAlignment * kAlignment; }

void clear(const at::Tensor& buffer) {
  if (!buffer.is_cpu()) {
    buffer.zero_();
    return;
  }
  char* bytes = static_cast<char*>(buffer.data_ptr());
  tensor::parallel_slices(
      static_cast<int64_t>(buffer.nbytes()), kBytesPerPart,
      [&](int64_t begin, int64_t end) { std::memset(bytes + begin, 0, static_cast<size_t>(end - begin)); });
}

}  // namespace

void FlatViews::zero() {
  for (const at::Tensor& buffer : buffers) clear(buffer);
}

namespace {

constexpr at::ScalarType kTypes[] = {at::kFloat, at::kBFloat16, at::kByte};

int64_t count_of(const std::vector<tensor::Parameter*>& parameters, const std::vector<at::ScalarType>& types,
                 at::ScalarType type) {
  int64_t count = 0;
  for (size_t i = 0; i < parameters.size(); ++i)
    if (types[i] == type) count += padded(parameters[i]->count());
  return count;
}

}  // namespace

FlatViews flat_views(const std::vector<tensor::Parameter*>& parameters,
                     const std::vector<at::ScalarType>& types, const Allocate& allocate) {
  FlatViews flat;
  flat.views.resize(parameters.size());
  for (const at::ScalarType type : kTypes) {
    const int64_t count = count_of(parameters, types, type);
    if (count == 0) continue;
    const at::Tensor buffer = allocate(count, type);
    int64_t begin = 0;
    for (size_t i = 0; i < parameters.size(); ++i) {
      const tensor::Parameter& parameter = *parameters[i];
      if (types[i] != type) continue;
      flat.views[i] = buffer.narrow(0, begin, parameter.count()).view(parameter.shape());
      begin += padded(parameter.count());
    }
    flat.buffers.push_back(buffer);
  }
  return flat;
}

FlatViews flat_views(const std::vector<tensor::Parameter*>& parameters,
                     const std::vector<at::ScalarType>& types, base::MemoryKind kind) {
  FlatViews flat = flat_views(parameters, types, [&](int64_t count, at::ScalarType type) {
    return tensor::empty({count}, type, kind, parameters[0]->device());
  });
  flat.zero();
  return flat;
}

int64_t flat_bytes(const std::vector<tensor::Parameter*>& parameters,
                   const std::vector<at::ScalarType>& types) {
  int64_t bytes = 0;
  for (const at::ScalarType type : kTypes)
    bytes += count_of(parameters, types, type) * static_cast<int64_t>(c10::elementSize(type));
  return bytes;
}

}  // namespace trl::optim
