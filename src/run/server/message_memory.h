// Memory in which a message to a server is written, and how it gets there.
#pragma once
#include <cstddef>
#include <memory>
#include <string_view>

#include "run/server/exchange.h"

namespace trl::run {

class MessageMemory {
 public:
  virtual ~MessageMemory() = default;
  // Returns memory for a message of `bytes` at most, which lasts until it is sent or another is begun.
  virtual char* begin(size_t bytes) = 0;
  // Sends the message, which begins at that memory. Returns the server's answer.
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
};

}  // namespace trl::run
