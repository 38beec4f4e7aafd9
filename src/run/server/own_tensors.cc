#include "run/server/own_tensors.h"

#include <cstring>

#include "base/arithmetic/bfloat16.h"
#include "base/error.h"
#include "engine/error_capture.h"
#include "io/half.h"
#include "io/safetensors.h"

namespace trl::run {

namespace {

constexpr int64_t kNumbersAtOnce = 1 << 16;

io::ElementType element_of(std::string_view dtype) {
  if (dtype == "bfloat16") return io::ElementType::bf16;
  return dtype == "float16" ? io::ElementType::f16 : io::ElementType::f32;
}

int64_t numbers_in(const std::vector<int64_t>& shape) {
  int64_t count = 1;
  for (const int64_t extent : shape) count *= extent;
  return count;
}

void write_number(float number, io::ElementType type, char* to) {
  if (type == io::ElementType::f32) {
    std::memcpy(to, &number, sizeof number);
    return;
  }
  const uint16_t half =
      type == io::ElementType::bf16 ? base::to_bf16(number).bits : io::float_to_half(number);
  std::memcpy(to, &half, sizeof half);
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

engine::HeldTensor read_numbers(engine::Model& model, std::string_view name) {
  engine::HeldTensor tensor;
  engine::ErrorCapture of_view, of_copy;
  const int32_t status = model.read_tensor(name, engine::TensorRead::view, &tensor, of_view);
  if (status == static_cast<int32_t>(Status::unsupported))
    of_copy.check(model.read_tensor(name, engine::TensorRead::copy, &tensor, of_copy));
  else
    of_view.check(status);
  if (tensor.gpu >= 0)
    fail(Status::unsupported, "{} is on a device, from which this build sends no tensors", name);
  return tensor;
}

void convert_numbers(const engine::HeldTensor& from, std::string_view dtype, char* to,
                     base::ThreadPool& pool) {
  const io::ElementType type = element_of(dtype);
  const size_t size = io::element_size(type);
  const auto* const data = static_cast<const char*>(from.data);
  pool.parallel_for(numbers_in(from.shape), kNumbersAtOnce, [&](int64_t begin, int64_t end) {
    char* const out = to + static_cast<size_t>(begin) * size;
    const auto count = static_cast<size_t>(end - begin);
    if (from.type == type) {
      std::memcpy(out, data + static_cast<size_t>(begin) * size, count * size);
      return;
    }
    std::vector<float> numbers(count);
    io::read_floats(from.type, data, begin, end - begin, numbers.data());
    for (size_t i = 0; i < count; ++i) write_number(numbers[i], type, out + i * size);
  });
}

TypedNumbers numbers_as(engine::Model& model, std::string_view name, std::string_view dtype,
                        base::ThreadPool& pool) {
  TypedNumbers out{read_numbers(model, name)};
  const io::ElementType type = element_of(dtype);
  const size_t bytes = static_cast<size_t>(numbers_in(out.held.shape)) * io::element_size(type);
  if (out.held.type == type) {
    out.bytes = {static_cast<const char*>(out.held.data), bytes};
  } else {
    out.converted.resize(bytes);
    convert_numbers(out.held, dtype, out.converted.data(), pool);
    out.bytes = {out.converted.data(), bytes};
  }
  return out;
}

}  // namespace trl::run
