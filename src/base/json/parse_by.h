// Parses JSON by one of nlohmann's parsers, with the place of an error.
#pragma once
#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/json/json.h"
#include "base/text/polled_text.h"

namespace trl::base {

// Cuts nlohmann's text, "[json.exception.parse_error.101] parse error at line 1, column 9: syntax error while
// ...".
inline std::string plain_json_reason(std::string_view what) {
  const size_t colon = what.find(": ");
  return std::string(colon == std::string_view::npos ? what : what.substr(colon + 2));
}

// A text, and its place in the file or message that it was read from.
struct JsonOrigin {
  std::string_view text;
  std::string_view name;
  int64_t first_line;
  int64_t first_column;
  [[noreturn]] void fail_at(size_t byte, std::string_view reason) const {
    const std::string_view before = text.substr(0, byte);
    const size_t newline = before.rfind('\n');
    const int64_t column = newline == std::string_view::npos
                               ? first_column + static_cast<int64_t>(before.size())
                               : static_cast<int64_t>(before.size() - newline);
    const Place place{std::string(name), first_line + std::ranges::count(before, '\n'), column};
    fail(Status::format, "{}: {}", place, reason);
  }
};

// Returns what `read` makes of the text. Throws Error(format) with the place of what a parser of nlohmann's
// refuses.
template <typename Read>
auto parse_by(std::string_view text, std::string_view name, int64_t first_line, int64_t first_column,
              const Read& read) {
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  const JsonOrigin origin{text, name, first_line, first_column};
  if (const size_t deep = find_deeper(text, kMaxJsonDepth); deep != std::string_view::npos)
    origin.fail_at(deep, fmt::format("nested deeper than {} levels", kMaxJsonDepth));
  try {
    return read(PolledText::begin(text), PolledText::end(text));
  } catch (const nlohmann::json::parse_error& error) {
    origin.fail_at(error.byte > 0 ? error.byte - 1 : 0, "not valid JSON: " + plain_json_reason(error.what()));
  } catch (const nlohmann::json::exception& error) {  // a number that no double holds
    const std::string reason = plain_json_reason(error.what());
    const size_t quote = reason.find('\'');
    const std::string number =
        quote == std::string::npos ? std::string() : reason.substr(quote + 1, reason.rfind('\'') - quote - 1);
    const size_t at = number.empty() ? std::string_view::npos : text.find(number);
    origin.fail_at(at == std::string_view::npos ? 0 : at, "a number is too large: " + number);
  }
}

}  // namespace trl::base
