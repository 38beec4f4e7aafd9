// The names of weight files in a model directory.
#pragma once
#include <string_view>

namespace trl::io {

inline constexpr std::string_view kSingle = "model.safetensors";
inline constexpr std::string_view kIndex = "model.safetensors.index.json";
inline constexpr std::string_view kIndexEnd = ".safetensors.index.json";

}  // namespace trl::io
