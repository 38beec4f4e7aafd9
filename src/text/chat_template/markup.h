// HTML escaping, as markupsafe does it.
#pragma once
#include "text/chat_template/run.h"

namespace trl::text::jinja {

void write_escaped(Writer& out, std::string_view text);
void write_markup(Writer& out, Run& run, const Value& value);  // escaped, unless it is markup

}  // namespace trl::text::jinja
