#include "run/complete/completion_text.h"

#include <algorithm>

namespace trl::run {

bool CompletionText::add(int32_t id) {
  ids_.push_back(id);
  const size_t before = text_.size();
  // rows that pad the embedding have no text
  if (id < vocab_size_) text_ += stream_.step(id);
  size_t cut = std::string::npos;
  for (const std::string& stop : stops_) {
    const size_t from = before > stop.size() ? before - stop.size() : 0;
    cut = std::min(cut, text_.find(stop, from));
  }
  if (cut == std::string::npos) return false;
  text_.resize(cut);
  over_ = true;
  return true;
}

void CompletionText::finish() {
  if (!over_) text_ += stream_.finish();
  over_ = true;
}

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

}  // namespace trl::run
