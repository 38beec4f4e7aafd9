// Tensors as DLPack, version 1: the layout of its structs, which a host gets from DLPack's own header.
#pragma once
#include <cstdint>

namespace trl::base::dlpack {

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

}  // namespace trl::base::dlpack

// The name is DLPack's.
struct DLManagedTensorVersioned {
  trl::base::dlpack::Version version;
  void* manager_ctx;
  void (*deleter)(DLManagedTensorVersioned* self);  // or null
  uint64_t flags;
  trl::base::dlpack::Tensor dl_tensor;
};
