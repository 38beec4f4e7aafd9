#include "text/constraint/schema_place.h"

#include <string>

namespace trl::text {

namespace {

using base::Json;

// Decodes "%24" and the like.
std::string without_percents(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto digit = [&](size_t at) -> int {
      const char c = at < text.size() ? text[at] : 'x';
      if (c >= '0' && c <= '9') return c - '0';
      const char low = static_cast<char>(c | 0x20);
      return low >= 'a' && low <= 'f' ? low - 'a' + 10 : -1;
    };
    if (text[i] != '%' || digit(i + 1) < 0 || digit(i + 2) < 0) {
      out += text[i];
      continue;
    }
    out += static_cast<char>(digit(i + 1) * 16 + digit(i + 2));
    i += 2;
  }
  return out;
}

}  // namespace

const Json* referred_place(const Json& root, std::string_view reference) {
  if (!reference.starts_with("#")) return nullptr;
  try {
    return &root.at(Json::json_pointer(without_percents(reference.substr(1))));
  } catch (const Json::exception&) {
    return nullptr;
  }
}

}  // namespace trl::text
