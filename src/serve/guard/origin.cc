#include "serve/guard/origin.h"

#include <algorithm>

namespace trl::serve {

namespace {

// Returns a Host without its port.
std::string_view name_of(std::string_view host) {
  if (host.starts_with('[')) return host.substr(0, std::min(host.find(']'), host.size() - 1) + 1);
  return host.substr(0, host.find(':'));
}

}  // namespace

bool same_name(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, [](char x, char y) {
    const auto small = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; };
    return small(x) == small(y);
  });
}

bool is_known_host(std::string_view host, std::string_view address, const std::vector<std::string>& names) {
  const std::string_view name = name_of(host);
  if (host.empty() || same_name(name, "localhost") || same_name(name, name_of(address))) return true;
  // TRL's clients call this machine 0.0.0.0 unless told otherwise.
  for (const std::string_view own : {"127.0.0.1", "[::1]", "0.0.0.0", "[::]"})
    if (name == own) return true;
  return std::ranges::any_of(names, [&](const std::string& known) { return same_name(name, known); });
}

HeaderFields cors_fields(const Request& request, const std::vector<std::string>& origins) {
  const std::string_view origin = request.field("origin");
  if (origin.empty() || std::ranges::find(origins, origin) == origins.end()) return {};
  HeaderFields fields = {{"Access-Control-Allow-Origin", std::string(origin)}, {"Vary", "Origin"}};
  if (request.method == "OPTIONS") {
    fields.emplace_back("Access-Control-Allow-Methods", "GET, POST, OPTIONS");
    fields.emplace_back("Access-Control-Allow-Headers", "Authorization, Content-Type");
    fields.emplace_back("Access-Control-Max-Age", "600");
  }
  return fields;
}

}  // namespace trl::serve
