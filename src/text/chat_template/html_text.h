// HTML as text: without tags, character references as characters.
#pragma once
#include <string>
#include <string_view>

#include "text/chat_template/run.h"

namespace trl::text::jinja {

std::string without_tags(Run& run, std::string_view html);  // as markupsafe's striptags

}  // namespace trl::text::jinja
