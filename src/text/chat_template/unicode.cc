// Classes of characters from utf8proc and PCRE2, and text by code points.
#define PCRE2_CODE_UNIT_WIDTH 8
#include "text/chat_template/unicode.h"

#include <pcre2.h>
#include <utf8proc.h>

#include <array>
#include <memory>

#include "base/error.h"
#include "base/text/utf8.h"
#include "text/tokenizer/characters.h"

namespace trl::text::jinja {

namespace {

utf8proc_category_t category_of(char32_t c) { return utf8proc_category(static_cast<utf8proc_int32_t>(c)); }

// Tables from UnicodeData.txt and Unihan_NumericValues.txt of Unicode 14, which utf8proc lacks: characters
// that are digits or numbers to Python's str methods though their category does not say so.
// Numeric_Type=Digit:
constexpr CharacterRange kDigits[] = {
    {0xB2, 0xB3},     {0xB9, 0xB9},       {0x1369, 0x1371},   {0x19DA, 0x19DA},   {0x2070, 0x2070},
    {0x2074, 0x2079}, {0x2080, 0x2089},   {0x2460, 0x2468},   {0x2474, 0x247C},   {0x2488, 0x2490},
    {0x24EA, 0x24EA}, {0x24F5, 0x24FD},   {0x24FF, 0x24FF},   {0x2776, 0x277E},   {0x2780, 0x2788},
    {0x278A, 0x2792}, {0x10A40, 0x10A43}, {0x10E60, 0x10E68}, {0x11052, 0x1105A}, {0x1F100, 0x1F10A}};

// Ideographs with a numeric value.
constexpr CharacterRange kIdeographs[] = {
    {0x3405, 0x3405},   {0x3483, 0x3483},   {0x382A, 0x382A},   {0x3B4D, 0x3B4D},   {0x4E00, 0x4E00},
    {0x4E03, 0x4E03},   {0x4E07, 0x4E07},   {0x4E09, 0x4E09},   {0x4E5D, 0x4E5D},   {0x4E8C, 0x4E8C},
    {0x4E94, 0x4E94},   {0x4E96, 0x4E96},   {0x4EBF, 0x4EC0},   {0x4EDF, 0x4EDF},   {0x4EE8, 0x4EE8},
    {0x4F0D, 0x4F0D},   {0x4F70, 0x4F70},   {0x5104, 0x5104},   {0x5146, 0x5146},   {0x5169, 0x5169},
    {0x516B, 0x516B},   {0x516D, 0x516D},   {0x5341, 0x5341},   {0x5343, 0x5345},   {0x534C, 0x534C},
    {0x53C1, 0x53C4},   {0x56DB, 0x56DB},   {0x58F1, 0x58F1},   {0x58F9, 0x58F9},   {0x5E7A, 0x5E7A},
    {0x5EFE, 0x5EFF},   {0x5F0C, 0x5F0E},   {0x5F10, 0x5F10},   {0x62FE, 0x62FE},   {0x634C, 0x634C},
    {0x67D2, 0x67D2},   {0x6F06, 0x6F06},   {0x7396, 0x7396},   {0x767E, 0x767E},   {0x8086, 0x8086},
    {0x842C, 0x842C},   {0x8CAE, 0x8CAE},   {0x8CB3, 0x8CB3},   {0x8D30, 0x8D30},   {0x9621, 0x9621},
    {0x9646, 0x9646},   {0x964C, 0x964C},   {0x9678, 0x9678},   {0x96F6, 0x96F6},   {0xF96B, 0xF96B},
    {0xF973, 0xF973},   {0xF978, 0xF978},   {0xF9B2, 0xF9B2},   {0xF9D1, 0xF9D1},   {0xF9D3, 0xF9D3},
    {0xF9FD, 0xF9FD},   {0x20001, 0x20001}, {0x20064, 0x20064}, {0x200E2, 0x200E2}, {0x20121, 0x20121},
    {0x2092A, 0x2092A}, {0x20983, 0x20983}, {0x2098C, 0x2098C}, {0x2099C, 0x2099C}, {0x20AEA, 0x20AEA},
    {0x20AFD, 0x20AFD}, {0x20B19, 0x20B19}, {0x22390, 0x22390}, {0x22998, 0x22998}, {0x23B1B, 0x23B1B},
    {0x2626D, 0x2626D}, {0x2F890, 0x2F890}};

template <typename Predicate>
std::string_view strip_while(std::string_view text, Side side, Predicate drop) {
  if (side != Side::right) {
    size_t at = 0;
    while (at < text.size()) {
      size_t next = at;
      if (!drop(base::next_code_point(text, next))) break;
      at = next;
    }
    text.remove_prefix(at);
  }
  if (side != Side::left) {
    while (!text.empty()) {
      size_t begin = text.size() - 1;
      while (begin > 0 && (static_cast<unsigned char>(text[begin]) & 0xC0) == 0x80) --begin;
      size_t next = begin;
      if (!drop(base::next_code_point(text, next))) break;
      text.remove_suffix(text.size() - begin);
    }
  }
  return text;
}

bool line_end(char32_t c) {
  return (c >= 10 && c <= 13) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 || c == 0x2029;
}

using Pattern = std::unique_ptr<pcre2_code, void (*)(pcre2_code*)>;

Pattern compile(const char* pattern) {
  int error = 0;
  PCRE2_SIZE offset = 0;
  Pattern code(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern), PCRE2_ZERO_TERMINATED,
                             PCRE2_UTF | PCRE2_UCP | PCRE2_ANCHORED, &error, &offset, nullptr),
               pcre2_code_free);
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

// Upper, lower, title case and case folding as in Python's str: the full mappings. If a letter folds to
// several, its upper case is that of each (the sharp s becomes SS), as in Unicode's special casing.

char32_t simple(utf8proc_int32_t (*map)(utf8proc_int32_t), char32_t c) {
  return static_cast<char32_t>(map(static_cast<utf8proc_int32_t>(c)));
}

// Returns the letters that c folds to.
std::u32string folded(char32_t c) {
  std::array<utf8proc_int32_t, 8> letters{};
  int last = 0;
  const auto count = utf8proc_decompose_char(static_cast<utf8proc_int32_t>(c), letters.data(), letters.size(),
                                             UTF8PROC_CASEFOLD, &last);
  if (count > static_cast<utf8proc_ssize_t>(letters.size())) return {};
  return std::u32string(letters.begin(), letters.begin() + std::max<utf8proc_ssize_t>(count, 0));
}

bool cased(char32_t c) {
  if (c < 0x80) return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  return has_property(c, Property::cased);
}

void append_upper(std::string& out, char32_t c) {
  if (c < 0x80) {
    out.push_back(c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : static_cast<char>(c));
    return;
  }
  const std::u32string letters = folded(c);
  if (letters.size() < 2 || is_upper(c)) {
    base::append_utf8(out, simple(utf8proc_toupper, c));
    return;
  }
  for (const char32_t letter : letters) base::append_utf8(out, simple(utf8proc_toupper, letter));
}

// Checks the Final_Sigma condition; begin and end are those of the sigma.
bool final_sigma(std::string_view text, size_t begin, size_t end) {
  const auto skipped = [](char32_t c) { return has_property(c, Property::case_ignorable); };
  bool follows = false;
  while (begin > 0) {
    --begin;
    while (begin > 0 && (static_cast<unsigned char>(text[begin]) & 0xC0) == 0x80) --begin;
    size_t at = begin;
    const char32_t c = base::next_code_point(text, at);
    if (skipped(c)) continue;
    follows = cased(c);
    break;
  }
  while (follows && end < text.size()) {
    const char32_t c = base::next_code_point(text, end);
    if (!skipped(c)) return !cased(c);
  }
  return follows;
}

void append_lower(std::string& out, std::string_view text, size_t begin, size_t end, char32_t c) {
  if (c < 0x80)
    out.push_back(c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : static_cast<char>(c));
  else if (c == 0x130)
    out.append("i\xCC\x87");  // I with dot: i and a combining dot
  else if (c == 0x3A3)
    base::append_utf8(out, final_sigma(text, begin, end) ? 0x3C2 : 0x3C3);
  else
    base::append_utf8(out, simple(utf8proc_tolower, c));
}

// Gives the first of several letters that has an upper case its upper case; a later iota becomes a subscript.
void append_title(std::string& out, char32_t c) {
  const std::u32string letters = folded(c);
  const char32_t one = simple(utf8proc_totitle, c);
  if (letters.size() < 2 || is_title(one) || is_upper(c)) {
    base::append_utf8(out, one);
    return;
  }
  bool done = false;
  for (const char32_t letter : letters) {
    const char32_t upper = done ? letter : simple(utf8proc_toupper, letter);
    base::append_utf8(out, done && letter == 0x3B9 ? 0x345 : upper);
    done = done || upper != letter;
  }
}

template <typename Append>
std::string each(std::string_view text, Append append) {
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    const char32_t c = base::next_code_point(text, at);
    append(out, begin, at, c);
  }
  return out;
}

}  // namespace

bool is_space(char32_t c) { return (c >= 0x1C && c <= 0x1F) || is_whitespace(c); }

bool is_letter(char32_t c) {
  if (c < 0x80) return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  const auto k = category_of(c);
  return k >= UTF8PROC_CATEGORY_LU && k <= UTF8PROC_CATEGORY_LO;
}

bool is_decimal(char32_t c) {
  return c < 0x80 ? c >= '0' && c <= '9' : category_of(c) == UTF8PROC_CATEGORY_ND;
}

bool is_word(char32_t c) {
  if (c == '_' || is_letter(c) || is_decimal(c)) return true;
  if (c < 0x80) return false;
  const auto k = category_of(c);
  return k == UTF8PROC_CATEGORY_NL || k == UTF8PROC_CATEGORY_NO;
}

// Computes a digit's value: decimal digits are in Unicode in runs from 0 to 9.
int decimal_value(char32_t c) {
  if (c < 0x80) return static_cast<int>(c) - '0';
  int before = 0;
  while (is_decimal(c - 1 - static_cast<char32_t>(before))) ++before;
  return before % 10;
}

bool is_digit(char32_t c) { return is_decimal(c) || within(kDigits, c); }

bool is_numeric(char32_t c) {
  if (c < 0x80) return is_decimal(c);
  const auto k = category_of(c);
  return (k >= UTF8PROC_CATEGORY_ND && k <= UTF8PROC_CATEGORY_NO) || within(kIdeographs, c);
}

bool is_printable(char32_t c) {
  if (c < 0x7F) return c >= 0x20;
  switch (category_of(c)) {
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
    case UTF8PROC_CATEGORY_ZS:
      return false;
    default:
      return true;
  }
}

std::string_view strip(std::string_view text, Side side) { return strip_while(text, side, is_space); }

std::string_view strip(std::string_view text, Side side, std::string_view chars) {
  std::u32string set;
  for (size_t at = 0; at < chars.size();) set += base::next_code_point(chars, at);
  return strip_while(text, side, [&](char32_t c) { return set.find(c) != std::u32string::npos; });
}

std::vector<std::string_view> split_lines(std::string_view text, bool keep_ends) {
  std::vector<std::string_view> lines;
  size_t begin = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t end = at;
    const char32_t c = base::next_code_point(text, at);
    if (!line_end(c)) continue;
    if (c == '\r' && at < text.size() && text[at] == '\n') ++at;
    lines.push_back(text.substr(begin, (keep_ends ? at : end) - begin));
    begin = at;
  }
  if (begin < text.size()) lines.push_back(text.substr(begin));
  return lines;
}

std::vector<std::string_view> split_words(std::string_view text) {
  std::vector<std::string_view> words;
  size_t begin = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t end = at;
    if (!is_space(base::next_code_point(text, at))) continue;
    if (end > begin) words.push_back(text.substr(begin, end - begin));
    begin = at;
  }
  if (begin < text.size()) words.push_back(text.substr(begin));
  return words;
}

size_t byte_offset(const Text& text, size_t index) {
  if (index >= text.length) return text.bytes.size();
  if (text.ascii()) return index;
  size_t at = 0;
  for (; index > 0 && at < text.bytes.size(); --index) base::next_code_point(text.bytes, at);
  return at;
}

size_t code_point_index(const Text& text, size_t offset) {
  return text.ascii() ? offset : base::count_code_points(std::string_view(text.bytes).substr(0, offset));
}

bool has_property(char32_t c, Property property) {
  const pcre2_code* pattern = pattern_of(property);
  static thread_local const std::unique_ptr<pcre2_match_data, void (*)(pcre2_match_data*)> match(
      pcre2_match_data_create(1, nullptr), pcre2_match_data_free);
  if (!match) throw std::bad_alloc();
  std::string one;
  base::append_utf8(one, c);
  return pcre2_match(pattern, reinterpret_cast<PCRE2_SPTR>(one.data()), one.size(), 0, PCRE2_NO_UTF_CHECK,
                     match.get(), nullptr) > 0;
}

bool is_title(char32_t c) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(c)) == UTF8PROC_CATEGORY_LT;
}
bool is_upper(char32_t c) { return c < 0x80 ? c >= 'A' && c <= 'Z' : has_property(c, Property::uppercase); }
bool is_lower(char32_t c) { return c < 0x80 ? c >= 'a' && c <= 'z' : has_property(c, Property::lowercase); }
bool begins_name(char32_t c) {
  return c < 0x80 ? c == '_' || is_letter(c) : has_property(c, Property::xid_start);
}
bool goes_on_in_name(char32_t c) { return c < 0x80 ? is_word(c) : has_property(c, Property::xid_continue); }

std::string to_upper(std::string_view text) {
  return each(text, [](std::string& out, size_t, size_t, char32_t c) { append_upper(out, c); });
}

std::string to_lower(std::string_view text) {
  return each(text, [&](std::string& out, size_t begin, size_t end, char32_t c) {
    append_lower(out, text, begin, end, c);
  });
}

std::string case_fold(std::string_view text) {
  return each(text, [](std::string& out, size_t, size_t, char32_t c) {
    for (const char32_t letter : folded(c)) base::append_utf8(out, letter);
  });
}

std::string swap_case(std::string_view text) {
  return each(text, [&](std::string& out, size_t begin, size_t end, char32_t c) {
    if (is_upper(c))
      append_lower(out, text, begin, end, c);
    else if (is_lower(c))
      append_upper(out, c);
    else
      base::append_utf8(out, c);
  });
}

std::string capitalize(std::string_view text) {
  return each(text, [&](std::string& out, size_t begin, size_t end, char32_t c) {
    begin == 0 ? append_title(out, c) : append_lower(out, text, begin, end, c);
  });
}

std::string title_case(std::string_view text) {
  bool inside = false;
  return each(text, [&](std::string& out, size_t begin, size_t end, char32_t c) {
    inside ? append_lower(out, text, begin, end, c) : append_title(out, c);
    inside = cased(c);
  });
}

bool is_title_case(std::string_view text) {
  bool any = false, inside = false;
  for (size_t at = 0; at < text.size();) {
    const char32_t c = base::next_code_point(text, at);
    const bool begins = is_upper(c) || is_title(c), goes_on = !begins && is_lower(c);
    if ((begins && inside) || (goes_on && !inside)) return false;
    inside = begins || goes_on;
    any = any || inside;
  }
  return any;
}

}  // namespace trl::text::jinja
