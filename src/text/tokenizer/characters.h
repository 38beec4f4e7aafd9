// Classes of characters as Rust's standard library and regex crate define them.
#pragma once

namespace trl::text {

bool is_whitespace(char32_t c);   // White_Space
bool is_numeric(char32_t c);      // Nd, Nl, No
bool is_punctuation(char32_t c);  // ASCII punctuation, P*
bool is_word(char32_t c);         // \w: Alphabetic, M, Nd, Pc, Join_Control
bool is_mark(char32_t c);         // M*

}  // namespace trl::text
