// SHA-256 as bytes; as text: hash.h.
#pragma once
#include <array>
#include <cstdint>
#include <string_view>

namespace trl::base {

std::array<uint8_t, 32> sha256(std::string_view bytes);

}  // namespace trl::base
