#include "text/constraint/json_formats.h"

#include <fmt/format.h>

#include <algorithm>

namespace trl::text {

namespace {

// Days that their month has; the years 0001 to 9999, which all libraries know.
constexpr std::string_view kYear = "(000[1-9]|00[1-9][0-9]|0[1-9][0-9]{2}|[1-9][0-9]{3})";
constexpr std::string_view kLeapYear =
    "([0-9]{2}(0[48]|[2468][048]|[13579][26])|(0[48]|[2468][048]|[13579][26])00)";
constexpr std::string_view kDayOfYear =
    "((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)|02-(0[1-9]|1[0-9]|2[0-8]))";
constexpr std::string_view kTime =
    "([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\\.[0-9]{1,9})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])";
constexpr std::string_view kHostPart = "[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?";
constexpr std::string_view kUriPart = "([A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2})*";

std::string date_form() { return fmt::format("({}-{}|{}-02-29)", kYear, kDayOfYear, kLeapYear); }
std::string date_time_form() { return fmt::format("{}T{}", date_form(), kTime); }
std::string clock_time_form() { return std::string(kTime); }
std::string duration_form() {
  return "P([0-9]+W|[0-9]+D|([0-9]+D)?T([0-9]+H([0-9]+M([0-9]+S)?)?|[0-9]+M([0-9]+S)?|[0-9]+S))";
}
std::string uuid_form() { return "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"; }
std::string hostname_form() { return fmt::format("{0}(\\.{0}){{0,2}}", kHostPart); }
std::string email_form() {
  return fmt::format("[A-Za-z0-9_%+-]+(\\.[A-Za-z0-9_%+-]+)*@{0}(\\.{0})+", kHostPart);
}
std::string ipv4_form() {
  constexpr std::string_view kByte = "(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])";
  return fmt::format("({0}\\.){{3}}{0}", kByte);
}
std::string ipv6_form() { return "([0-9a-f]{1,4}:){7}[0-9a-f]{1,4}"; }
// With a host; other URIs are not written.
std::string uri_form() {
  return fmt::format("(https?|ftp)://{0}(\\.{0})*(:[0-9]{{1,4}})?(/{1})*(\\?{1})?(#{1})?", kHostPart,
                     kUriPart);
}

constexpr struct {
  std::string_view name;
  std::string (*pattern)();
} kFormats[] = {{"date", date_form},           {"time", clock_time_form},
                {"date-time", date_time_form}, {"duration", duration_form},
                {"uuid", uuid_form},           {"email", email_form},
                {"hostname", hostname_form},   {"ipv4", ipv4_form},
                {"ipv6", ipv6_form},           {"uri", uri_form}};

}  // namespace

std::optional<std::string> format_pattern(std::string_view format) {
  for (const auto& [name, pattern] : kFormats)
    if (name == format) return pattern();
  return std::nullopt;
}

std::string known_formats() {
  std::string names;
  for (const auto& [name, pattern] : kFormats) names += (names.empty() ? "" : ", ") + std::string(name);
  return names;
}

}  // namespace trl::text
