// Checksums (XXH3) and content identity (SHA-256).
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace trl::base {

uint64_t xxh3_64(std::string_view bytes);
std::string sha256_hex(std::string_view bytes);  // 64 lower-case hexadecimal digits

}  // namespace trl::base
