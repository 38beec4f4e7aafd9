// Character references: numbers, the names that HTML also knows without a semicolon, and apos. There are two
// thousand other names; these are refused, so that none is rendered as a wrong character.
#include "text/chat_template/html_text.h"

#include <algorithm>
#include <array>
#include <optional>

#include "base/text/utf8.h"
#include "text/chat_template/unicode.h"

namespace trl::text::jinja {

namespace {

// In the order of their characters, from U+00A0 to U+00FF.
constexpr std::string_view kLatin1Names =
    "nbsp iexcl cent pound curren yen brvbar sect uml copy ordf laquo not shy reg macr deg plusmn "
    "sup2 sup3 acute micro para middot cedil sup1 ordm raquo frac14 frac12 frac34 iquest Agrave "
    "Aacute Acirc Atilde Auml Aring AElig Ccedil Egrave Eacute Ecirc Euml Igrave Iacute Icirc Iuml "
    "ETH Ntilde Ograve Oacute Ocirc Otilde Ouml times Oslash Ugrave Uacute Ucirc Uuml Yacute THORN "
    "szlig agrave aacute acirc atilde auml aring aelig ccedil egrave eacute ecirc euml igrave iacute "
    "icirc iuml eth ntilde ograve oacute ocirc otilde ouml divide oslash ugrave uacute ucirc uuml "
    "yacute thorn yuml";

// What stands for the numbers from 128 to 159, which are meant as Windows-1252.
constexpr std::array<char32_t, 32> kWindows = {0x20AC, 0x81,   0x201A, 0x192,  0x201E, 0x2026, 0x2020, 0x2021,
                                               0x2C6,  0x2030, 0x160,  0x2039, 0x152,  0x8D,   0x17D,  0x8F,
                                               0x90,   0x2018, 0x2019, 0x201C, 0x201D, 0x2022, 0x2013, 0x2014,
                                               0x2DC,  0x2122, 0x161,  0x203A, 0x153,  0x9D,   0x17E,  0x178};

std::optional<char32_t> named(std::string_view name) {
  constexpr std::pair<std::string_view, char32_t> kOthers[] = {
      {"lt", '<'}, {"gt", '>'},  {"amp", '&'},  {"quot", '"'},  {"LT", '<'},
      {"GT", '>'}, {"AMP", '&'}, {"QUOT", '"'}, {"COPY", 0xA9}, {"REG", 0xAE}};
  for (const auto& [other, c] : kOthers) {
    if (other == name) return c;
  }
  if (name.find(' ') != std::string_view::npos) return std::nullopt;
  char32_t c = 0xA0;
  for (std::string_view rest = kLatin1Names; !rest.empty(); ++c) {
    const size_t end = std::min(rest.find(' '), rest.size());
    if (rest.substr(0, end) == name) return c;
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return std::nullopt;
}

// Text for a number that stands in a reference.
std::string numbered(uint32_t code) {
  std::string out;
  if (code >= 0x80 && code < 0xA0) {
    base::append_utf8(out, kWindows[code - 0x80]);
  } else if (code == 0 || code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF)) {
    base::append_utf8(out, 0xFFFD);
  } else {
    const bool control =
        (code < 0x20 && code != '\t' && code != '\n' && code != '\f' && code != '\r') || code == 0x7F;
    const bool no_character = (code >= 0xFDD0 && code <= 0xFDEF) || (code & 0xFFFE) == 0xFFFE;
    if (!control && !no_character) base::append_utf8(out, code);
  }
  return out;
}

// The reference after the '&' at `at`, which moves past it. If it is not a reference, `at` stays.
std::string take_number(std::string_view text, size_t& at) {
  const bool hexadecimal = at + 2 < text.size() && (text[at + 2] | 0x20) == 'x';
  size_t end = at + (hexadecimal ? 3 : 2);
  const size_t begin = end;
  uint32_t code = 0;
  for (; end < text.size(); ++end) {
    const char c = text[end];
    const char lower = static_cast<char>(c | 0x20);
    const bool digit = c >= '0' && c <= '9';
    if (!digit && !(hexadecimal && lower >= 'a' && lower <= 'f')) break;
    const auto value = static_cast<uint32_t>(digit ? c - '0' : lower - 'a' + 10);
    code = std::min<uint32_t>(code * (hexadecimal ? 16 : 10) + value, 0x110000);
  }
  if (end == begin) return {};
  at = end + (end < text.size() && text[end] == ';' ? 1 : 0);
  return numbered(code);
}

std::string take_name(Run& run, std::string_view text, size_t& at) {
  constexpr std::string_view kEnds = "\t\n\f <&#;";
  size_t end = at + 1;
  for (int count = 0; count < 32 && end < text.size() && kEnds.find(text[end]) == std::string_view::npos;
       ++count)
    base::next_code_point(text, end);
  const std::string_view name = text.substr(at + 1, end - at - 1);
  const bool closed = end < text.size() && text[end] == ';';
  std::string out;
  if (closed && name == "apos") {
    at = end + 1;
    return "'";
  }
  const auto letter = [](char c) {
    return (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z');
  };
  for (size_t size = name.size(); size >= 2; --size) {
    const auto found = named(name.substr(0, size));
    if (closed && !found && size == name.size() && std::all_of(name.begin(), name.end(), letter))
      run.fail("striptags: the character reference '&{};' is not known here; write the character", name);
    if (!found) continue;
    base::append_utf8(out, *found);
    at += 1 + size + (closed && size == name.size() ? 1 : 0);
    return out;
  }
  return {};
}

std::string unescaped(Run& run, std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const size_t amp = std::min(text.find('&', at), text.size());
    out += text.substr(at, amp - at);
    at = amp;
    if (at == text.size()) break;
    run.spend(4);
    const bool number = at + 1 < text.size() && text[at + 1] == '#';
    size_t after = at;
    const std::string character = number ? take_number(text, after) : take_name(run, text, after);
    if (after == at) {
      out += '&';
      ++at;
      continue;
    }
    out += character;
    at = after;
  }
  return out;
}

}  // namespace

std::string without_tags(Run& run, std::string_view html) {
  run.spend(static_cast<int64_t>(html.size() / 8));
  std::string text;
  size_t at = 0;
  while (at < html.size()) {
    const size_t begin = html.find('<', at);
    if (begin == std::string_view::npos) break;
    const bool comment = html.substr(begin).starts_with("<!--");
    const size_t end = comment ? html.find("-->", begin + 4) : html.find('>', begin);
    if (end == std::string_view::npos) break;
    text += html.substr(at, begin - at);
    at = end + (comment ? 3 : 1);
  }
  text += html.substr(at);
  std::string joined;
  for (const std::string_view word : split_words(text)) {
    if (!joined.empty()) joined += ' ';
    joined += word;
  }
  return unescaped(run, joined);
}

}  // namespace trl::text::jinja
