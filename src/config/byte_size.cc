#include "config/byte_size.h"

#include <cctype>

#include "base/error.h"
#include "base/number.h"
#include "config/value.h"

namespace trl::config {

namespace {

struct Unit {
  std::string_view name;
  double bytes;
};
constexpr Unit kUnits[] = {{"TB", 1e12}, {"GB", 1e9}, {"MB", 1e6}, {"KB", 1e3}};

std::string_view trimmed(std::string_view text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  return text;
}

std::optional<int64_t> parse(std::string_view text) {
  if (const auto bytes = base::parse_int64(text)) return bytes;
  if (text.size() < 2) return {};
  std::string name(text.substr(text.size() - 2));
  for (char& c : name) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  for (const Unit& unit : kUnits) {
    if (name != unit.name) continue;
    const std::optional<double> count = base::parse_double(trimmed(text.substr(0, text.size() - 2)));
    if (!count || !(*count * unit.bytes < 0x1p63)) return {};
    return static_cast<int64_t>(std::max(*count * unit.bytes, -1.0));
  }
  return {};
}

}  // namespace

int64_t byte_size(const Config& config, const char* key) {
  const std::string text = config.get(key);
  const std::optional<int64_t> bytes = parse(trimmed(text));
  if (!bytes || *bytes < 1) {
    fail_key(
        key,
        "{}: {} is not accepted: give a positive number of bytes, or one with TB, GB, MB or KB, as in 5GB",
        key, shown(text));
  }
  return *bytes;
}

}  // namespace trl::config
