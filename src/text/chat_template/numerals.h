// Characters that are digits or numbers to Python's str methods though their category does not say so.
#pragma once

namespace trl::text::jinja {

bool is_special_digit(char32_t c);      // superscripts, circled digits ...
bool is_numeral_ideograph(char32_t c);  // the ideograph for one, for ten thousand ...

}  // namespace trl::text::jinja
