// A weight in a GGUF file, read in place.
#pragma once
#include <functional>
#include <memory>

#include "io/gguf.h"
#include "tensor/parameter/encoded.h"

namespace trl::kernels {

// A weight of any type that io/ reads. file: keeps the tensor's bytes. row: maps a row to the file's row;
// empty: the same row.
std::shared_ptr<const tensor::Encoded> ggml_weight(std::shared_ptr<const io::Gguf> file,
                                                   const io::GgufTensor& tensor,
                                                   std::function<int64_t(int64_t)> row = {});

}  // namespace trl::kernels
