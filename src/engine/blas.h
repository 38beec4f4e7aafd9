// The OpenBLAS that libtorch uses, as it is named in a process.
#pragma once

namespace trl::engine {

inline constexpr const char* kBlas = "libopenblas.so.0";
inline constexpr const char* kBundledBlas = "trlopenblas.so.0";  // src/bundle

}  // namespace trl::engine
