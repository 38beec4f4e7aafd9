// Which path the ops of this room take: the fused kernels, or plain:: in ATen's own operators, which runs on
// any device and is what the fused ones are compared with. A scope says it for the calling thread, so that
// two trainers of one process may differ.
#pragma once
#include <ATen/ATen.h>

#include <cstdint>
#include <optional>

#include "tensor/threads/openmp_threads.h"

namespace trl::kernels {

enum class Path : uint8_t { fused, plain };

Path path();  // of this thread; fused where no scope says otherwise

class PathScope {
 public:
  explicit PathScope(Path path);
  ~PathScope();
  PathScope(const PathScope&) = delete;
  PathScope& operator=(const PathScope&) = delete;

 private:
  const Path before_;
  std::optional<tensor::OpenMpThreads> of_libtorch_;  // for its own regions
};

// Whether an op on x, or on this device, is a fused kernel: those run on the CPU.
inline bool fused(at::Device device) { return device.is_cpu() && path() == Path::fused; }
inline bool fused(const at::Tensor& x) { return fused(x.device()); }

}  // namespace trl::kernels
