// datetime.strftime for a moment in UTC, in English in every locale.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace trl::text::jinja {

std::string format_time(std::string_view format, int64_t unix_seconds);

}  // namespace trl::text::jinja
