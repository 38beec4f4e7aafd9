// Any bytes as a GGUF file: tensors that lie inside it and a tokenizer, or one error each that names the
// file.
#include <algorithm>

#include "base/error.h"
#include "data/tokenizer/open_tokenizer.h"
#include "in_memory_file.h"
#include "io/gguf.h"

namespace {

using namespace trl;
using fuzz::require;

template <typename Body>
void errors_are_told(const Body& body) {
  try {
    body();
  } catch (const Error& error) {
    require(error.status() == Status::format || error.status() == Status::unsupported);
    require(error.message().find("/proc/self/fd/") != std::string::npos);
  }
}

void read_tensors(const io::Gguf& file) {
  for (const auto& [name, tensor] : file.tensors()) {
    const int64_t block = io::find_ggml_type(tensor.type)->block;
    int64_t elements = 1;
    for (const int64_t extent : tensor.shape) elements *= extent;
    std::vector<float> values(static_cast<size_t>(block));
    for (const int64_t first : {int64_t{0}, elements - block})
      io::dequantize(tensor, first, block, values.data());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const fuzz::InMemoryFile file(data, size);
  errors_are_told([&] { read_tensors(io::Gguf(file.path())); });
  errors_are_told([&] {
    const auto tokenizer = data::open_tokenizer(file.path());
    for (const int32_t id : tokenizer->encode("ab <s> \xC3\xA9", true))
      require(id >= 0 && id < tokenizer->vocab_size());
  });
  return 0;
}
