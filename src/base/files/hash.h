// Checksums (XXH3) and content identity (SHA-256).
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

struct XXH3_state_s;  // xxhash.h

namespace trl::base {

uint64_t xxh3_64(std::string_view bytes);
// Computes the same checksum for bytes that arrive in pieces.
class Xxh3 {
 public:
  Xxh3();
  ~Xxh3();
  Xxh3(const Xxh3&) = delete;
  Xxh3& operator=(const Xxh3&) = delete;
  void update(std::string_view bytes);
  uint64_t digest() const;

 private:
  XXH3_state_s* state_;
};

std::string sha256_hex(std::string_view bytes);  // 64 lower-case hexadecimal digits

}  // namespace trl::base
