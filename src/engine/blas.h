// The OpenBLAS that libtorch uses, as it is named in a process.
#pragma once

namespace trl::engine {

inline constexpr const char* kBlas = "libopenblas.so.0";
inline constexpr const char* kBundledBlas = "trlopenblas.so.0";  // src/bundle

// Throws Error(out_of_memory) if this process has no address space for the buffers that OpenBLAS maps, one
// for each of its threads, when it is loaded: it would try for ever.
void need_blas_buffers();

}  // namespace trl::engine
