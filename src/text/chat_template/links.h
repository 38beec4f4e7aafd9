// Addresses in a text as links, as Jinja's urlize makes them.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "text/chat_template/run.h"

namespace trl::text::jinja {

struct LinkStyle {
  std::optional<int64_t> limit;      // characters of an address that are shown
  std::string attributes;            // rel and target, escaped, a blank before each
  std::vector<std::string> schemes;  // that begin a link beside http, https and mailto
};

// escaped: HTML, in which the links are looked for.
std::string with_links(Run& run, std::string_view escaped, const LinkStyle& style);

}  // namespace trl::text::jinja
