// The way of a tensor over the border in both directions, as DLPack.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/dlpack.h"
#include "engine/model.h"
#include "trl/trl.h"

namespace trl::capi {

namespace dlpack = base::dlpack;

// The host's until it calls the deleter, which it may do on any thread. read_only: it must not write to it.
DLManagedTensorVersioned* to_dlpack(engine::HeldTensor tensor, bool read_only);

// Calls body with the tensor that to_dlpack() has handed out as a copy; its data follows. Throws
// Error(invalid_argument) for another one.
void exchange_copy(DLManagedTensorVersioned* copy, const std::function<void(engine::HeldTensor&)>& body);

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
