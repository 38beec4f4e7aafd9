// The message is written into a file in memory that a server on this machine reads.
#pragma once
#include <cstdint>
#include <memory>
#include <string>

#include "run/server/message_memory.h"
#include "run/server/vllm_server.h"

namespace trl::run {

// Returns whether a server says that it shares memory with this process: it is on this machine, of this user.
bool shares_memory(const VllmServer& server, std::string_view url);

class SharedMessage final : public MessageMemory {
 public:
  SharedMessage(Exchange& exchange, base::LogSink& log) : exchange_(exchange), log_(log), body_(exchange) {}
  ~SharedMessage() override;
  // Falls back to a body if the file cannot be opened here.
  void begin(size_t bytes) override;
  void write(size_t at, std::string_view bytes) override;
  Answer send() override;

 private:
  bool open(const std::string& path, size_t bytes);
  void close() noexcept;

  Exchange& exchange_;
  base::LogSink& log_;
  BodyMemory body_;
  bool falls_back_ = false;
  std::string token_;
  int fd_ = -1;
};

}  // namespace trl::run
