#include "serve/http/message.h"

#include <algorithm>

namespace trl::serve {

namespace {

int digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace

std::string_view Request::field(std::string_view name) const {
  const auto found =
      std::ranges::find(fields, name, [](const auto& pair) { return std::string_view(pair.first); });
  return found == fields.end() ? std::string_view() : std::string_view(found->second);
}

std::vector<std::string> Request::parameters(std::string_view name) const {
  std::vector<std::string> values;
  for (size_t begin = 0; begin < query.size();) {
    const size_t end = std::min(query.find('&', begin), query.size());
    const std::string_view pair = std::string_view(query).substr(begin, end - begin);
    const size_t equals = std::min(pair.find('='), pair.size());
    if (decode_url(pair.substr(0, equals), true) == name)
      values.push_back(decode_url(pair.substr(std::min(equals + 1, pair.size())), true));
    begin = end + 1;
  }
  return values;
}

std::string Request::parameter(std::string_view name, std::string fallback) const {
  std::vector<std::string> values = parameters(name);
  return values.empty() ? fallback : std::move(values.back());
}

std::string decode_url(std::string_view text, bool plus_is_space) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    const bool two =
        text[i] == '%' && i + 2 < text.size() && digit(text[i + 1]) >= 0 && digit(text[i + 2]) >= 0;
    if (two) {
      out += static_cast<char>(digit(text[i + 1]) * 16 + digit(text[i + 2]));
      i += 2;
    } else {
      out += text[i] == '+' && plus_is_space ? ' ' : text[i];
    }
  }
  return out;
}

}  // namespace trl::serve
