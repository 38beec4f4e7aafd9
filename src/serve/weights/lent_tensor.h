// Tensors of a model as the library lends them.
#pragma once
#include "base/c_handle.h"
#include "base/dlpack.h"

namespace trl::serve {

inline void give_back(DLManagedTensorVersioned* tensor) {
  if (tensor != nullptr && tensor->deleter != nullptr) tensor->deleter(tensor);
}

using LentTensor = base::CHandle<DLManagedTensorVersioned, give_back>;

inline bool is_on_host(const LentTensor& tensor) { return tensor.get()->dl_tensor.device.type == 1; }
inline char* bytes_of(const LentTensor& tensor) {
  const base::dlpack::Tensor& values = tensor.get()->dl_tensor;
  return static_cast<char*>(values.data) + values.byte_offset;
}

}  // namespace trl::serve
