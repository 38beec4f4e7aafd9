// Functions that methods of str and filters share.
#include <cstring>

#include "base/text/utf8.h"
#include "text/chat_template/methods.h"
#include "text/chat_template/python.h"
#include "text/chat_template/unicode.h"

namespace trl::text::jinja {

size_t find_text(Run& run, std::string_view text, std::string_view needle, size_t from) {
  if (from > text.size()) return std::string::npos;
  if (needle.empty()) return from;
  const void* found = memmem(text.data() + from, text.size() - from, needle.data(), needle.size());
  const size_t at =
      found ? static_cast<size_t>(static_cast<const char*>(found) - text.data()) : std::string::npos;
  const size_t scanned = (found ? at : text.size()) - from + needle.size();
  run.spend(1 + static_cast<int64_t>(scanned / 64));
  return at;
}

size_t find_last_text(Run& run, std::string_view text, std::string_view needle) {
  if (needle.size() <= 256) {  // rfind compares at every position, which is cheap only for a short text
    const size_t at = text.rfind(needle);
    const size_t scanned = at == std::string_view::npos ? text.size() : text.size() - at;
    run.spend(1 + static_cast<int64_t>(scanned * (1 + needle.size() / 16) / 16));
    return at;
  }
  size_t last = std::string::npos;
  for (size_t at = find_text(run, text, needle); at != std::string::npos;
       at = find_text(run, text, needle, at + 1))
    last = at;
  return last;
}

Value replace_text(Run& run, const Value& text, std::string_view from, std::string_view to, int64_t count) {
  const std::string& source = text.bytes();
  Writer out(run);
  size_t at = 0;
  int64_t left = count < 0 ? INT64_MAX : count;
  if (from.empty()) {  // between all code points
    for (; left > 0; --left) {
      out.append(to);
      if (at >= source.size()) break;
      const size_t begin = at;
      base::next_code_point(source, at);
      out.append(std::string_view(source).substr(begin, at - begin));
    }
  }
  while (!from.empty() && left-- > 0) {
    const size_t found = find_text(run, source, from, at);
    if (found == std::string::npos) break;
    out.append(std::string_view(source).substr(at, found - at));
    out.append(to);
    at = found + from.size();
  }
  out.append(std::string_view(source).substr(at));
  return out.value(text.text().markup);
}

Value join_text(Run& run, std::string_view separator, const Values& parts, bool strict) {
  Writer out(run);
  for (size_t i = 0; i < parts.size(); ++i) {
    if (i > 0) out.append(separator);
    if (strict && !parts[i].is_text())
      run.fail("sequence item {}: expected str instance, {} found", i, type_name(parts[i]));
    write_str(out, run, parts[i]);
  }
  return out.value();
}

Value strip_text(Run& run, const Value& text, const Value& chars, int side) {
  const auto where = static_cast<Side>(side);
  if (chars.is_none()) return run.text(std::string(strip(text.bytes(), where)), text.text().markup);
  if (!chars.is_text()) run.fail("strip arg must be None or str, not {}", type_name(chars));
  run.spend(static_cast<int64_t>(text.bytes().size() / 16 * (1 + chars.bytes().size() / 16)));
  return run.text(std::string(strip(text.bytes(), where, chars.bytes())), text.text().markup);
}

}  // namespace trl::text::jinja
