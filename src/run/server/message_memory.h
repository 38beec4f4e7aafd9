// A message to a server: where it is written, and how it gets there. The memory stays for the next message,
// because taking new pages costs more than filling them.
#pragma once
#include <cstddef>
#include <memory>
#include <string_view>

#include "run/server/exchange.h"

namespace trl::run {

class MessageMemory {
 public:
  virtual ~MessageMemory() = default;
  // Gives memory for a message of that many bytes, at a multiple of base::tensor_message::kAlign.
  virtual char* begin(size_t bytes) = 0;
  // Sends the first bytes of it. Returns the server's answer.
  virtual Answer send(size_t bytes) = 0;
};

// The message is the body of a request.
class BodyMemory final : public MessageMemory {
 public:
  explicit BodyMemory(Exchange& exchange) : exchange_(exchange) {}
  char* begin(size_t bytes) override;
  Answer send(size_t bytes) override;

 private:
  Exchange& exchange_;
  std::unique_ptr<char[]> memory_;
  size_t bytes_ = 0;
  char* begin_ = nullptr;  // in memory_
};

}  // namespace trl::run
