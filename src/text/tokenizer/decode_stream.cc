#include "text/tokenizer/decode_stream.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/text/utf8.h"

namespace trl::text {
namespace {

// Returns the length of an unfinished character's beginning at the end of bytes; 0: none.
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

std::string DecodeStream::step(int32_t id) {
  if (begun_) {
    pending_ += tokenizer_->decode_bytes({&id, 1}, skip_, true);
  } else {
    before_.push_back(id);
    pending_ = tokenizer_->decode_bytes(before_, skip_, false);
    begun_ = !pending_.empty();
  }
  std::string whole = pending_.substr(0, pending_.size() - unfinished(pending_));
  pending_.erase(0, whole.size());
  return base::replace_invalid_utf8(whole);
}

std::string DecodeStream::finish() { return base::replace_invalid_utf8(std::exchange(pending_, {})); }

}  // namespace trl::text
