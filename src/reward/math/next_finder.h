// Searches a text for one needle from many places, in time proportional to the text in all.
#pragma once
#include <string_view>

namespace trl::reward::math {

class NextFinder {
 public:
  // escaped: whether a needle counts if a backslash precedes it.
  NextFinder(std::string_view text, std::string_view needle, bool escaped = true)
      : text_(text), needle_(needle), escaped_(escaped) {}

  // Returns the first place from `at` on; npos: none.
  size_t from(size_t at) {
    const bool known = at >= searched_ && (found_ == std::string_view::npos || at <= found_);
    if (known) return found_;
    searched_ = at;
    found_ = text_.find(needle_, at);
    while (!escaped_ && found_ != std::string_view::npos && found_ > at && text_[found_ - 1] == '\\')
      found_ = text_.find(needle_, found_ + 1);
    return found_;
  }

 private:
  std::string_view text_, needle_;
  bool escaped_;
  size_t searched_ = std::string_view::npos, found_ = 0;
};

}  // namespace trl::reward::math
