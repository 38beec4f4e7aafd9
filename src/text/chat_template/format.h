// Python's two ways to format strings: "%s" % values and "{}".format(values).
#pragma once
#include "text/chat_template/run.h"

namespace trl::text::jinja {

Value format_percent(Run& run, const Value& format, const Value& values);
Value format_braces(Run& run, const Value& format, Arguments values);
Value format_braces_of(Run& run, const Value& format, const Value& mapping);

}  // namespace trl::text::jinja
