// A message to a server: where it is written, and how it gets there.
#pragma once
#include <cstddef>
#include <memory>
#include <string_view>

#include "run/server/exchange.h"

namespace trl::run {

class MessageMemory {
 public:
  virtual ~MessageMemory() = default;
  // Begins a message of that many bytes, which are all written before it is sent.
  virtual void begin(size_t bytes) = 0;
  // Writes a part. Any thread, other parts meanwhile.
  virtual void write(size_t at, std::string_view bytes) = 0;
  // Sends the message. Returns the server's answer.
  virtual Answer send() = 0;
};

// The message is the body of a request.
class BodyMemory final : public MessageMemory {
 public:
  explicit BodyMemory(Exchange& exchange) : exchange_(exchange) {}
  void begin(size_t bytes) override;
  void write(size_t at, std::string_view bytes) override;
  Answer send() override;

 private:
  Exchange& exchange_;
  std::unique_ptr<char[]> memory_;
  size_t bytes_ = 0;
};

}  // namespace trl::run
