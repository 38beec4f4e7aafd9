// The patterns of tokenizer.json are Oniguruma's (Ruby syntax, Unicode); PCRE2 runs them. This is the
// translation.
#pragma once
#include <string>
#include <string_view>

namespace trl::text {

// Throws Error(unsupported) for a construct whose meaning would change.
std::string pcre_from_oniguruma(std::string_view pattern);

}  // namespace trl::text
