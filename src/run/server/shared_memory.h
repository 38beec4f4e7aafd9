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
  char* begin(size_t bytes) override;
  Answer send(size_t bytes) override;

 private:
  bool open(const std::string& path, size_t bytes);
  int map(int fd, size_t bytes) noexcept;
  void close() noexcept;

  Exchange& exchange_;
  base::LogSink& log_;
  BodyMemory body_;
  bool falls_back_ = false;
  std::string token_;
  char* mapped_ = nullptr;
  size_t bytes_ = 0;   // of mapped_
  bool lent_ = false;  // the server waits for a message in it
};

}  // namespace trl::run
