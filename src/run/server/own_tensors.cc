#include "run/server/own_tensors.h"

#include <algorithm>
#include <cstring>

#include "base/arithmetic/bfloat16.h"
#include "base/error.h"
#include "engine/error_capture.h"
#include "io/half.h"
#include "io/safetensors.h"

namespace trl::run {

namespace {

constexpr int64_t kNumbersAtOnce = 1 << 12;

io::ElementType element_of(std::string_view dtype) {
  if (dtype == "bfloat16") return io::ElementType::bf16;
  return dtype == "float16" ? io::ElementType::f16 : io::ElementType::f32;
}

int64_t numbers_in(const std::vector<int64_t>& shape) {
  int64_t count = 1;
  for (const int64_t extent : shape) count *= extent;
  return count;
}

// Converts numbers, which begin at `first` of memory of type `from`.
void convert(const engine::HeldTensor& from, int64_t first, int64_t count, io::ElementType type, char* to) {
  if (from.type == io::ElementType::f32 && type == io::ElementType::bf16) {
    const float* const numbers = static_cast<const float*>(from.data) + first;
    auto* const out = reinterpret_cast<base::bf16*>(to);
    for (int64_t i = 0; i < count; ++i) out[i] = base::to_bf16(numbers[i]);
    return;
  }
  float numbers[kNumbersAtOnce];
  io::read_floats(from.type, from.data, first, count, numbers);
  const auto wanted = static_cast<size_t>(count);
  if (type == io::ElementType::f32) {
    std::memcpy(to, numbers, wanted * sizeof(float));
    return;
  }
  for (size_t i = 0; i < wanted; ++i) {
    const uint16_t half =
        type == io::ElementType::bf16 ? base::to_bf16(numbers[i]).bits : io::float_to_half(numbers[i]);
    std::memcpy(to + i * sizeof half, &half, sizeof half);
  }
}

std::string_view bytes_of(const engine::HeldTensor& tensor) {
  return {static_cast<const char*>(tensor.data),
          static_cast<size_t>(numbers_in(tensor.shape)) * io::element_size(tensor.type)};
}

void check_on_host(const engine::HeldTensor& tensor, std::string_view name) {
  if (tensor.gpu >= 0)
    fail(Status::unsupported, "{} is on a device, from which this build sends no tensors", name);
}

class ListOfNumbers final : public engine::TensorList {
 public:
  void add(const engine::TensorInfo& tensor) override {
    if (tensor.stored == tensor.dtype)
      all.push_back({std::string(tensor.name), {tensor.shape.begin(), tensor.shape.end()}, tensor.trained});
  }
  std::vector<OwnTensor> all = {};
};

}  // namespace

std::vector<OwnTensor> own_tensors(engine::Model& model) {
  ListOfNumbers list;
  engine::ErrorCapture error;
  error.check(model.list_tensors(list, error));
  return std::move(list.all);
}

std::optional<engine::HeldTensor> view_numbers(engine::Model& model, std::string_view name) {
  engine::HeldTensor tensor;
  engine::ErrorCapture error;
  const int32_t status = model.read_tensor(name, engine::TensorRead::view, &tensor, error);
  if (status == static_cast<int32_t>(Status::unsupported)) return std::nullopt;
  error.check(status);
  check_on_host(tensor, name);
  return tensor;
}

engine::HeldTensor read_numbers(engine::Model& model, std::string_view name) {
  if (std::optional<engine::HeldTensor> view = view_numbers(model, name)) return *std::move(view);
  engine::HeldTensor tensor;
  engine::ErrorCapture error;
  error.check(model.read_tensor(name, engine::TensorRead::copy, &tensor, error));
  check_on_host(tensor, name);
  return tensor;
}

void each_piece(const engine::HeldTensor& from, std::string_view dtype, const TakePiece& take) {
  const io::ElementType type = element_of(dtype);
  if (from.type == type) return take(bytes_of(from));
  const int64_t count = numbers_in(from.shape);
  alignas(64) char converted[kNumbersAtOnce * sizeof(float)];
  for (int64_t first = 0; first < count; first += kNumbersAtOnce) {
    const int64_t numbers = std::min(kNumbersAtOnce, count - first);
    convert(from, first, numbers, type, converted);
    take({converted, static_cast<size_t>(numbers) * io::element_size(type)});
  }
}

TypedNumbers numbers_as(engine::Model& model, std::string_view name, std::string_view dtype) {
  TypedNumbers out{read_numbers(model, name)};
  if (out.held.type == element_of(dtype)) {
    out.bytes = bytes_of(out.held);
    return out;
  }
  each_piece(out.held, dtype, [&](std::string_view piece) {
    out.converted.insert(out.converted.end(), piece.begin(), piece.end());
  });
  out.bytes = {out.converted.data(), out.converted.size()};
  return out;
}

}  // namespace trl::run
