#include "text/chat_template/unicode_property.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <array>
#include <memory>
#include <string>

#include "base/error.h"
#include "base/text/utf8.h"

namespace trl::text::jinja {

namespace {

struct FreePattern {
  void operator()(pcre2_code* code) const { pcre2_code_free(code); }
};
struct FreeMatch {
  void operator()(pcre2_match_data* match) const { pcre2_match_data_free(match); }
};
using Pattern = std::unique_ptr<pcre2_code, FreePattern>;

Pattern compile(const char* pattern) {
  int error = 0;
  PCRE2_SIZE offset = 0;
  Pattern code(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern), PCRE2_ZERO_TERMINATED,
                             PCRE2_UTF | PCRE2_UCP | PCRE2_ANCHORED, &error, &offset, nullptr));
  if (!code) fail(Status::internal, "PCRE2 does not compile {} (error {})", pattern, error);
  return code;
}

const pcre2_code* pattern_of(Property property) {
  // never destroyed: other threads may still render while the process ends
  static const auto& patterns = *new const std::array<Pattern, 6>{
      compile("\\p{Lowercase}"),      compile("\\p{Uppercase}"), compile("\\p{Cased}"),
      compile("\\p{Case_Ignorable}"), compile("\\p{XID_Start}"), compile("\\p{XID_Continue}")};
  return patterns[static_cast<size_t>(property)].get();
}

}  // namespace

bool has_property(char32_t c, Property property) {
  const pcre2_code* pattern = pattern_of(property);
  static thread_local const std::unique_ptr<pcre2_match_data, FreeMatch> match(
      pcre2_match_data_create(1, nullptr));
  if (!match) throw std::bad_alloc();
  std::string one;
  base::append_utf8(one, c);
  return pcre2_match(pattern, reinterpret_cast<PCRE2_SPTR>(one.data()), one.size(), 0, PCRE2_NO_UTF_CHECK,
                     match.get(), nullptr) > 0;
}

}  // namespace trl::text::jinja
