#include "io/window.h"

namespace trl::io {

void Window::skip_mark() {
  constexpr std::string_view kMark = "\xEF\xBB\xBF";
  if (at_end()) return;
  while (end_ < kMark.size()) {
    const size_t got = stream_->read(buffer_.get() + end_, kBytes - end_);
    if (got == 0) break;
    end_ += got;
  }
  if (ahead().starts_with(kMark)) consume(kMark.size());
}

}  // namespace trl::io
