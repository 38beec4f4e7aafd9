#include "run/server/message_memory.h"

#include "base/memory/large_pages.h"
#include "base/tensor_message.h"

namespace trl::run {

namespace form = base::tensor_message;

char* BodyMemory::begin(size_t bytes) {
  if (bytes > bytes_) {
    memory_.reset();
    bytes_ = 0;
    memory_ = base::large_memory(bytes + form::kAlign);
    bytes_ = bytes;
    begin_ = memory_.get();
    while (reinterpret_cast<uintptr_t>(begin_) % form::kAlign != 0) ++begin_;
  }
  return begin_;
}

Answer BodyMemory::send(size_t bytes) {
  // Asked twice, the server says that it has these already.
  return exchange_.post_bytes("/trl/weights", {begin_, bytes}, form::kType, /*repeatable=*/true);
}

}  // namespace trl::run
