// See completion_text.h.
#include "capi/completion_text.h"

#include <algorithm>

#include "base/utf8.h"

namespace trl::capi {
namespace {

// How long the beginning of an unfinished character at the end of bytes is; 0: none.
size_t unfinished(std::string_view bytes) {
  for (size_t back = 1; back <= std::min<size_t>(3, bytes.size()); ++back) {
    const auto byte = static_cast<unsigned char>(bytes[bytes.size() - back]);
    if (byte < 0x80) return 0;
    if (byte < 0xC0) continue;
    const size_t length = byte >= 0xF0 ? 4 : byte >= 0xE0 ? 3 : 2;
    return length > back ? back : 0;
  }
  return 0;
}

}  // namespace

bool CompletionText::add(int32_t id) {
  ids_.push_back(id);
  // rows that pad the embedding have no text
  if (id < tokenizer_->vocab_size()) pending_ += tokenizer_->decode_bytes({&id, 1}, true);
  const size_t whole = pending_.size() - unfinished(pending_);
  const size_t before = text_.size();
  text_ += base::replace_invalid_utf8(std::string_view(pending_).substr(0, whole));
  pending_.erase(0, whole);
  size_t cut = std::string::npos;
  for (const std::string& stop : stops_) {
    const size_t from = before > stop.size() ? before - stop.size() : 0;
    cut = std::min(cut, text_.find(stop, from));
  }
  if (cut == std::string::npos) return false;
  text_.resize(cut);
  pending_.clear();
  over_ = true;
  return true;
}

void CompletionText::finish() {
  if (!over_) text_ += base::replace_invalid_utf8(pending_);
  pending_.clear();
  over_ = true;
}

size_t CompletionText::certain() const {
  if (over_) return text_.size();
  size_t held = 0;
  for (const std::string& stop : stops_) {
    for (size_t length = std::min(stop.size() - 1, text_.size()); length > held; --length) {
      if (std::string_view(text_).ends_with(std::string_view(stop).substr(0, length))) held = length;
    }
  }
  return text_.size() - held;
}

std::string_view CompletionText::take() {
  const size_t end = certain();
  const std::string_view piece = std::string_view(text_).substr(taken_, end - taken_);
  taken_ = end;
  return piece;
}

}  // namespace trl::capi
