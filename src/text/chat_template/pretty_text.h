// pprint.pformat: a value in lines of 80 characters where it does not fit into one.
#pragma once
#include "text/chat_template/run.h"

namespace trl::text::jinja {

Value pretty_text(Run& run, const Value& value);

}  // namespace trl::text::jinja
