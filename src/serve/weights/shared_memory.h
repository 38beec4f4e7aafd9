// Memory that a client on this machine, of the same user, writes tensors into: no bytes go over a connection.
#pragma once
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

namespace trl::serve {

// A file in memory, whose size does not change.
class SharedMemory {
 public:
  // Throws Error(io).
  explicit SharedMemory(uint64_t bytes);
  ~SharedMemory();
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  // The client opens this path, which only its user can.
  std::string path() const;
  const std::string& token() const { return token_; }
  // Writes the token to the beginning, so that a client sees that it has opened this memory and no other.
  void mark();
  uint64_t bytes() const { return bytes_; }
  // Returns the first bytes, which a client may still be changing. Throws Refusal(503) without memory for
  // that.
  std::string_view contents(uint64_t bytes);

 private:
  const uint64_t bytes_;
  std::string token_;
  int fd_ = -1;
  void* mapped_ = nullptr;
};

// The one that a model has given out last. It stays for the next message, because taking new pages costs more
// than filling them.
class SharedMemories {
 public:
  struct Given {
    std::string token, path;
  };
  // Gives memory to one client, until its token is taken or another client asks. Throws Refusal(400) for more
  // bytes than `most`.
  Given give(uint64_t bytes, uint64_t most);
  // Takes the memory of a token back, which nobody gets while it is held. Throws Refusal(404).
  std::shared_ptr<SharedMemory> take(std::string_view token);
  void release();  // gives the memory back to the system, unless a client has it

 private:
  std::mutex mutex_;
  std::shared_ptr<SharedMemory> last_;
  bool lent_ = false;  // to a client that fills it
};

}  // namespace trl::serve
