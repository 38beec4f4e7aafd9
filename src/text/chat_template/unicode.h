// The parts of Unicode that Python's str methods need: white space, case, classes, and walking by code
// points.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "text/chat_template/value.h"

namespace trl::text::jinja {

bool is_space(char32_t c);  // str.isspace
bool is_letter(char32_t c);
bool is_decimal(char32_t c);
int decimal_value(char32_t c);  // value of a character that is_decimal
bool is_digit(char32_t c);      // str.isdigit
bool is_numeric(char32_t c);    // str.isnumeric
bool is_printable(char32_t c);  // str.isprintable
bool is_word(char32_t c);       // \w of Python's re: letters, numbers, underscore
bool is_upper(char32_t c);      // Uppercase
bool is_lower(char32_t c);      // Lowercase
bool is_title(char32_t c);      // Lt
bool begins_name(char32_t c);   // may begin what str.isidentifier accepts
bool goes_on_in_name(char32_t c);

std::string to_upper(std::string_view text);
std::string to_lower(std::string_view text);
std::string capitalize(std::string_view text);
std::string case_fold(std::string_view text);
std::string swap_case(std::string_view text);
bool is_title_case(std::string_view text);      // str.istitle
std::string title_case(std::string_view text);  // str.title

enum class Side : uint8_t { left, right, both };
std::string_view strip(std::string_view text, Side side);                          // white space
std::string_view strip(std::string_view text, Side side, std::string_view chars);  // any of these code points
std::vector<std::string_view> split_lines(std::string_view text, bool keep_ends);
std::vector<std::string_view> split_words(std::string_view text);  // at runs of white space

// Returns the byte offset of the code point with this index (text.length: the end).
size_t byte_offset(const Text& text, size_t index);
// Returns the number of code points before this byte offset.
size_t code_point_index(const Text& text, size_t offset);

// Properties of characters that utf8proc does not have, from PCRE2.
enum class Property : unsigned char { lowercase, uppercase, cased, case_ignorable, xid_start, xid_continue };

bool has_property(char32_t c, Property property);

}  // namespace trl::text::jinja
