#include "run/server/message_memory.h"

#include <cstring>

#include "base/memory/large_pages.h"
#include "base/tensor_message.h"

namespace trl::run {

void BodyMemory::begin(size_t bytes) {
  memory_.reset();
  memory_ = base::large_memory(bytes);
  bytes_ = bytes;
}

void BodyMemory::write(size_t at, std::string_view bytes) {
  std::memcpy(memory_.get() + at, bytes.data(), bytes.size());
}

Answer BodyMemory::send() {
  const std::unique_ptr<char[]> memory = std::move(memory_);
  // Asked twice, the server says that it has these already.
  return exchange_.post_bytes("/trl/weights", {memory.get(), bytes_}, base::tensor_message::kType,
                              /*repeatable=*/true);
}

}  // namespace trl::run
