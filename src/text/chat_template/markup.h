// HTML escaping, as markupsafe does it.
#pragma once
#include "text/chat_template/run.h"

namespace trl::text::jinja {

void write_escaped(Writer& out, std::string_view text);

}  // namespace trl::text::jinja
