// Tensors as DLPack, version 1: the layout of its structs, which a host gets from DLPack's own header, and
// the way of a tensor over the border in both directions.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "trl/trl.h"

namespace trl::capi::dlpack {

inline constexpr uint32_t kMajor = 1, kMinor = 0;
inline constexpr uint64_t kReadOnly = 1, kIsCopied = 2;  // flags

struct Version {
  uint32_t major, minor;
};

struct Device {
  int32_t type;  // 1: the host, 2: CUDA
  int32_t id;
};

struct Type {
  uint8_t code;  // 0: int, 1: unsigned, 2: float, 4: bfloat
  uint8_t bits;
  uint16_t lanes;
};

struct Tensor {
  void* data;
  Device device;
  int32_t ndim;
  Type dtype;
  int64_t* shape;
  int64_t* strides;  // in elements; null: contiguous
  uint64_t byte_offset;
};

}  // namespace trl::capi::dlpack

// The name is DLPack's.
struct DLManagedTensorVersioned {
  trl::capi::dlpack::Version version;
  void* manager_ctx;
  void (*deleter)(DLManagedTensorVersioned* self);  // or null
  uint64_t flags;
  trl::capi::dlpack::Tensor dl_tensor;
};

namespace trl::capi {

// The host's until it calls the deleter, which it may do on any thread. read_only: it must not write to it.
DLManagedTensorVersioned* to_dlpack(engine::HeldTensor tensor, bool read_only);

// A tensor of the host, checked. It must outlive this.
class HostTensor {
 public:
  // Throws Error(invalid_argument) naming what the library does not take.
  explicit HostTensor(const DLManagedTensorVersioned& tensor);
  engine::GivenTensor get() const { return {type_, shape_, strides_, data_}; }

 private:
  io::ElementType type_;
  std::vector<int64_t> shape_, strides_;
  const char* data_;
};

}  // namespace trl::capi
