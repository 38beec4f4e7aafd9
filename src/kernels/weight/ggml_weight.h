// A weight in a GGUF file, read in place.
#pragma once
#include <functional>
#include <memory>

#include "io/gguf.h"
#include "tensor/parameter/encoded.h"

namespace trl::kernels {

// Of any type that io/ reads. file: keeps the tensor's bytes. row: in which row of the file a row lies;
// empty: in the same.
std::shared_ptr<const tensor::Encoded> ggml_weight(std::shared_ptr<const io::Gguf> file,
                                                   const io::GgufTensor& tensor,
                                                   std::function<int64_t(int64_t)> row = {});

}  // namespace trl::kernels
