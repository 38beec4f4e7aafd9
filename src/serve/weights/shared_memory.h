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
  // Stands at the beginning of the memory, so that a client sees that it has opened this one and no other.
  const std::string& token() const { return token_; }
  uint64_t bytes() const { return bytes_; }
  // Ends all writing and returns the contents. Throws Refusal(409) while the client still has the memory as
  // one to write to.
  std::string_view seal();

 private:
  const uint64_t bytes_;
  std::string token_;
  int fd_ = -1;
  void* mapped_ = nullptr;
};

// The one that a model has given out last.
class SharedMemories {
 public:
  struct Given {
    std::string token, path;
  };
  // Throws Refusal(400) for more bytes than `most`.
  Given give(uint64_t bytes, uint64_t most);
  // Takes the memory of a token back. Throws Refusal(404).
  std::unique_ptr<SharedMemory> take(std::string_view token);

 private:
  std::mutex mutex_;
  std::unique_ptr<SharedMemory> last_;
};

}  // namespace trl::serve
