// Memory that libtorch takes by itself for one of its functions.
#pragma once
#include <ATen/ATen.h>

#include <cstdint>
#include <string_view>

namespace trl::tensor {

// The stage under which a rehearsal notes it.
inline constexpr std::string_view kLibtorchMemory = "libtorch";

// Counts these bytes as workspace for its lifetime, whether libtorch takes them or a rehearsal runs. Throws
// Error(out_of_memory) if they would exceed the limit.
class LibtorchMemory {
 public:
  explicit LibtorchMemory(int64_t bytes);
  ~LibtorchMemory();
  LibtorchMemory(const LibtorchMemory&) = delete;
  LibtorchMemory& operator=(const LibtorchMemory&) = delete;

 private:
  at::Tensor rehearsed_;  // of a rehearsal, which has no pages
  int64_t charged_ = 0;
};

}  // namespace trl::tensor
