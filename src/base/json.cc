#include "base/json.h"

#include <algorithm>

#include "base/error.h"
#include "base/files.h"

namespace trl::base {

namespace {
// nlohmann's text is "[json.exception.parse_error.101] parse error at line 1, column 9: syntax error while
// ...".
std::string plain_reason(std::string_view what) {
  const size_t colon = what.find(": ");
  return std::string(colon == std::string_view::npos ? what : what.substr(colon + 2));
}
}  // namespace

Json parse_json(std::string_view text, std::string_view origin, int64_t first_line) {
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  try {
    return Json::parse(text.begin(), text.end());
  } catch (const nlohmann::json::parse_error& error) {
    const size_t byte = std::min(error.byte > 0 ? error.byte - 1 : 0, text.size());
    const std::string_view before = text.substr(0, byte);
    const int64_t line = first_line + std::count(before.begin(), before.end(), '\n');
    const size_t newline = before.rfind('\n');
    const size_t column = byte - (newline == std::string_view::npos ? 0 : newline + 1) + 1;
    fail(Status::format, "{}:{}:{}: not valid JSON: {}", origin, line, column, plain_reason(error.what()));
  } catch (const nlohmann::json::exception& error) {
    fail(Status::format, "{}:{}: not valid JSON: {}", origin, first_line, error.what());
  }
}

Json read_json_file(const std::string& path) { return parse_json(read_file(path), path); }

std::string json_type(const Json& value) {
  if (value.is_array()) return "list";
  return value.is_number() ? "number" : value.type_name();
}

}  // namespace trl::base
