// Any bytes as a safetensors file: tensors that tile its data, or one error that names the file.
#include <algorithm>

#include "base/error.h"
#include "in_memory_file.h"
#include "io/safetensors.h"

namespace {

using namespace trl;
using fuzz::require;

void read_tensors(const io::Safetensors& file, size_t size) {
  size_t bytes = 0;
  unsigned sum = 0;
  for (const auto& [name, tensor] : file.tensors()) {
    const auto* begin = static_cast<const unsigned char*>(tensor.data);
    for (size_t i = 0; i < tensor.bytes; ++i) sum += begin[i];
    bytes += tensor.bytes;
    size_t elements = 1;
    for (const int64_t extent : tensor.shape) elements *= static_cast<size_t>(extent);
    if (io::element_size(tensor.type) > 0) require(elements * io::element_size(tensor.type) == tensor.bytes);
  }
  require(bytes < size && sum < UINT32_MAX);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const fuzz::InMemoryFile file(data, size);
  try {
    read_tensors(io::Safetensors(file.path()), size);
  } catch (const Error& error) {
    require(error.status() == Status::format || error.status() == Status::unsupported);
    require(error.message().find("/proc/self/fd/") != std::string::npos);
  }
  return 0;
}
