// DLPack's structs, version 1, as a host has them from DLPack's own header, and tensors in both directions.
#pragma once
#include <gtest/gtest.h>
#include <trl.h>

#include <bit>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

struct DLPackVersion {
  uint32_t major, minor;
};
struct DLDevice {
  int32_t device_type, device_id;
};
struct DLDataType {
  uint8_t code, bits;
  uint16_t lanes;
};
struct DLTensor {
  void* data;
  DLDevice device;
  int32_t ndim;
  DLDataType dtype;
  int64_t *shape, *strides;
  uint64_t byte_offset;
};
struct DLManagedTensorVersioned {
  DLPackVersion version;
  void* manager_ctx;
  void (*deleter)(DLManagedTensorVersioned* self);
  uint64_t flags;
  DLTensor dl_tensor;
};

namespace host {

inline constexpr DLDataType kFloat32 = {2, 32, 1}, kFloat64 = {2, 64, 1}, kBfloat16 = {4, 16, 1};
inline constexpr uint64_t kReadOnly = 1, kIsCopied = 2;

// A tensor of the host. Element is a number, or the bits of one.
template <class Element>
class GivenTensor {
 public:
  GivenTensor(DLDataType type, std::vector<int64_t> shape, std::vector<Element> values)
      : shape_(std::move(shape)), values_(std::move(values)) {
    managed_ = {{1, 0}, this, note_deletion, 0, {}};
    managed_.dl_tensor = {values_.data(), {1, 0}, static_cast<int32_t>(shape_.size()), type, shape_.data(),
                          nullptr,        0};
  }
  GivenTensor(const GivenTensor&) = delete;
  GivenTensor& operator=(const GivenTensor&) = delete;

  DLManagedTensorVersioned* get() { return &managed_; }
  DLTensor& tensor() { return managed_.dl_tensor; }
  void set_strides(std::vector<int64_t> strides) {
    strides_ = std::move(strides);
    tensor().strides = strides_.data();
  }
  int deleted() const { return deleted_; }
  std::function<void()> on_deletion;

 private:
  static void note_deletion(DLManagedTensorVersioned* self) {
    auto* const all = static_cast<GivenTensor*>(self->manager_ctx);
    ++all->deleted_;
    if (all->on_deletion) all->on_deletion();
  }
  std::vector<int64_t> shape_, strides_;
  std::vector<Element> values_;
  DLManagedTensorVersioned managed_ = {};
  int deleted_ = 0;
};

inline size_t count_of(const std::vector<int64_t>& shape) {
  return std::accumulate(shape.begin(), shape.end(), size_t{1},
                         [](size_t n, int64_t extent) { return n * static_cast<size_t>(extent); });
}

class FloatTensor : public GivenTensor<float> {
 public:
  // Without values: zeros.
  explicit FloatTensor(const std::vector<int64_t>& shape, std::vector<float> values = {})
      : GivenTensor(kFloat32, shape, filled(shape, std::move(values))) {}

 private:
  static std::vector<float> filled(const std::vector<int64_t>& shape, std::vector<float> values) {
    values.resize(count_of(shape));
    return values;
  }
};

struct DeleteTensor {
  void operator()(DLManagedTensorVersioned* tensor) const { tensor->deleter(tensor); }
};
using ReadTensor = std::unique_ptr<DLManagedTensorVersioned, DeleteTensor>;

// Checks what is promised of all, and returns the numbers as float32.
inline std::vector<float> floats(const DLManagedTensorVersioned& given) {
  const DLTensor& tensor = given.dl_tensor;
  EXPECT_EQ(given.version.major, 1u);
  EXPECT_EQ(tensor.device.device_type, 1);
  EXPECT_EQ(tensor.byte_offset, 0u);
  EXPECT_NE(tensor.strides, nullptr);
  int64_t step = 1;
  for (int32_t i = tensor.ndim; i-- > 0; step *= tensor.shape[i]) EXPECT_EQ(tensor.strides[i], step);
  std::vector<float> values(static_cast<size_t>(step));
  if (tensor.dtype.code == kFloat32.code && tensor.dtype.bits == kFloat32.bits) {
    std::memcpy(values.data(), tensor.data, values.size() * sizeof(float));
    return values;
  }
  EXPECT_EQ(tensor.dtype.code, kBfloat16.code);
  EXPECT_EQ(tensor.dtype.bits, kBfloat16.bits);
  const auto* const bits = static_cast<const uint16_t*>(tensor.data);
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = std::bit_cast<float>(static_cast<uint32_t>(bits[i]) << 16);
  return values;
}

inline std::vector<int64_t> shape_of(const DLManagedTensorVersioned& given) {
  return {given.dl_tensor.shape, given.dl_tensor.shape + given.dl_tensor.ndim};
}

}  // namespace host
