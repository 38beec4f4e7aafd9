// json.dumps as Hugging Face's tojson filter calls it.
#pragma once
#include <optional>

#include "text/chat_template/run.h"

namespace trl::text::jinja {

struct JsonStyle {
  bool ensure_ascii = false;
  bool sort_keys = false;
  std::optional<std::string> indent;  // one level's indentation
  std::string item_separator = ", ";
  std::string key_separator = ": ";
};

Value to_json(Run& run, const Value& value, Arguments arguments);  // the filter, with its arguments

}  // namespace trl::text::jinja
