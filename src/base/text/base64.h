// Base64 of RFC 4648, section 4: with padding, without line breaks.
#pragma once
#include <optional>
#include <string>
#include <string_view>

namespace trl::base {

std::string encode_base64(std::string_view bytes);
// Returns nothing for a text that is not base64.
std::optional<std::string> decode_base64(std::string_view text);

}  // namespace trl::base
