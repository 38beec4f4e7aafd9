// Properties of characters that utf8proc does not have, from PCRE2.
#pragma once

namespace trl::text::jinja {

enum class Property : unsigned char { lowercase, uppercase, cased, case_ignorable, xid_start, xid_continue };

bool has_property(char32_t c, Property property);

}  // namespace trl::text::jinja
