#include "text/tokenizer/completion_text.h"

#include <algorithm>

namespace trl::text {

bool CompletionText::add(int32_t id) {
  ids_.push_back(id);
  // rows that pad the embedding have no text
  return !over_ && append(id < vocab_size_ ? stream_.step(id) : std::string());
}

bool CompletionText::finish() {
  const bool stopped = !over_ && append(stream_.finish());
  over_ = true;
  return stopped;
}

bool CompletionText::append(const std::string& piece) {
  const size_t before = text_.size();
  text_ += piece;
  size_t cut = std::string::npos;
  for (const std::string& stop : stops_)
    cut = std::min(cut, text_.find(stop, before >= stop.size() ? before - stop.size() + 1 : 0));
  if (cut == std::string::npos) return false;
  text_.resize(cut);
  return over_ = true;
}

// A beginning of a stop text at the end may become one.
size_t CompletionText::certain() const {
  if (over_) return text_.size();
  size_t held = 0;
  for (const std::string& stop : stops_) {
    for (size_t length = std::min(stop.size() - 1, text_.size()); length > held; --length)
      if (std::string_view(text_).ends_with(std::string_view(stop).substr(0, length))) held = length;
  }
  return text_.size() - held;
}

std::string_view CompletionText::take() {
  const size_t end = certain();
  const std::string_view piece = std::string_view(text_).substr(taken_, end - taken_);
  taken_ = end;
  return piece;
}

}  // namespace trl::text
