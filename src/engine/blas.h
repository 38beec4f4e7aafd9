// The OpenBLAS that libtorch uses, as it is named in a process.
#pragma once

namespace trl::engine {

inline constexpr const char* kBlas = "libopenblas.so.0";
inline constexpr const char* kBundledBlas = "trlopenblas.so.0";  // src/bundle

// Throws Error(out_of_memory) if this process has no address space for the libraries that the engine loads
// with OpenBLAS. OpenBLAS maps a buffer for each of its threads, and would try for ever; an exception of a
// library that initialises itself would end the process.
void need_address_space(bool bundled);

}  // namespace trl::engine
