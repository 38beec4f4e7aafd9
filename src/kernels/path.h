// The path that the ops of this room take: the fused kernels, or plain:: in ATen's own operators, which runs
// on any device and is the reference for the fused ones. A scope sets it for the calling thread, so that two
// trainers of one process may differ.
#pragma once
#include <ATen/ATen.h>

#include <cstdint>
#include <optional>

#include "tensor/threads/openmp_threads.h"

namespace trl::kernels {

enum class Path : uint8_t { fused, plain };

inline Path path_of(bool plain) { return plain ? Path::plain : Path::fused; }

Path path();  // this thread's; fused unless a scope says otherwise

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

// Whether an op on x, or on this device, is a fused kernel: fused kernels run on the CPU.
inline bool fused(at::Device device) { return device.is_cpu() && path() == Path::fused; }
inline bool fused(const at::Tensor& x) { return fused(x.device()); }

}  // namespace trl::kernels
