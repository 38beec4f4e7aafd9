// textwrap.wrap: a paragraph in lines of a width, as Jinja's wordwrap calls it.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "text/chat_template/run.h"

namespace trl::text::jinja {

struct WrapStyle {
  int64_t width = 79;  // characters, at least 1
  bool break_long_words = true;
  bool break_on_hyphens = true;
};

std::vector<std::u32string> wrap_words(Run& run, std::u32string_view paragraph, const WrapStyle& style);

}  // namespace trl::text::jinja
