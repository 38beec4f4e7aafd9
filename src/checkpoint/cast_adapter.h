// Converts a saved adapter into another type.
#pragma once
#include <span>
#include <string>
#include <string_view>

#include "engine/engine.h"

namespace trl::checkpoint {

// path: an adapter's directory. type: "f32", "f16", "bf16"; "auto": each tensor as stored. files: the other
// files of the result, besides configuration and weights.
void cast_adapter(const std::string& path, const std::string& target, std::string_view type,
                  std::span<const engine::NamedBytes> files);

}  // namespace trl::checkpoint
