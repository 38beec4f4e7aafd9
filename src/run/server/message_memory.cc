#include "run/server/message_memory.h"

#include "base/tensor_message.h"

namespace trl::run {

char* BodyMemory::begin(size_t bytes) {
  memory_.reset();
  memory_ = std::make_unique_for_overwrite<char[]>(bytes);
  return memory_.get();
}

Answer BodyMemory::send(size_t bytes) {
  const std::unique_ptr<char[]> memory = std::move(memory_);
  // Asked twice, the server says that it has these already.
  return exchange_.post_bytes("/trl/weights", {memory.get(), bytes}, base::tensor_message::kType,
                              /*repeatable=*/true);
}

}  // namespace trl::run
