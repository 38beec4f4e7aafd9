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

std::string_view bytes_of(const engine::HeldTensor& tensor) {
  return {static_cast<const char*>(tensor.data),
          static_cast<size_t>(numbers_in(tensor.shape)) * io::element_size(tensor.type)};
}

void check_on_host(const engine::HeldTensor& tensor, std::string_view name) {
  if (tensor.gpu >= 0)
    fail(Status::unsupported, "{} is on a device, from which this build sends no tensors", name);
}

// Reads numbers where they lie. false: they lie in no such order.
bool view_numbers(engine::Model& model, std::string_view name, engine::HeldTensor& tensor) {
  engine::ErrorCapture error;
  const int32_t status = model.read_tensor(name, engine::TensorRead::view, &tensor, error);
  if (status == static_cast<int32_t>(Status::unsupported)) return false;
  error.check(status);
  check_on_host(tensor, name);
  return true;
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
  if (view_numbers(model, name, tensor)) return tensor;
  engine::ErrorCapture error;
  error.check(model.read_tensor(name, engine::TensorRead::copy, &tensor, error));
  check_on_host(tensor, name);
  return tensor;
}

std::optional<std::string_view> bytes_where_they_lie(engine::Model& model, std::string_view name,
                                                     std::string_view dtype, engine::HeldTensor& held) {
  if (!view_numbers(model, name, held) || held.type != element_of(dtype)) return std::nullopt;
  return bytes_of(held);
}

void each_part(const engine::HeldTensor& from, std::string_view dtype, base::ThreadPool& pool,
               const TakePart& take) {
  const io::ElementType type = element_of(dtype);
  const size_t size = io::element_size(type);
  pool.parallel_for(numbers_in(from.shape), kNumbersAtOnce, [&](int64_t begin, int64_t end) {
    const size_t at = static_cast<size_t>(begin) * size, bytes = static_cast<size_t>(end - begin) * size;
    if (from.type == type) return take(at, bytes_of(from).substr(at, bytes));
    std::vector<float> numbers(static_cast<size_t>(end - begin));
    std::vector<char> out(bytes);
    io::read_floats(from.type, static_cast<const char*>(from.data), begin, end - begin, numbers.data());
    for (size_t i = 0; i < numbers.size(); ++i) write_number(numbers[i], type, out.data() + i * size);
    take(at, {out.data(), out.size()});
  });
}

TypedNumbers numbers_as(engine::Model& model, std::string_view name, std::string_view dtype,
                        base::ThreadPool& pool) {
  TypedNumbers out{read_numbers(model, name)};
  const io::ElementType type = element_of(dtype);
  if (out.held.type == type) {
    out.bytes = bytes_of(out.held);
    return out;
  }
  out.converted.resize(static_cast<size_t>(numbers_in(out.held.shape)) * io::element_size(type));
  each_part(out.held, dtype, pool, [&](size_t at, std::string_view bytes) {
    std::memcpy(out.converted.data() + at, bytes.data(), bytes.size());
  });
  out.bytes = {out.converted.data(), out.converted.size()};
  return out;
}

}  // namespace trl::run
