#include "base/files/hash.h"

#include <sys/types.h>

#include <sha2.h>
#include <xxhash.h>

#include <fmt/format.h>

#include <new>

#include "base/files/sha256.h"

namespace trl::base {

uint64_t xxh3_64(std::string_view bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }

Xxh3::Xxh3() : state_(XXH3_createState()) {
  if (state_ == nullptr) throw std::bad_alloc();
  XXH3_64bits_reset(state_);
}
Xxh3::~Xxh3() { XXH3_freeState(state_); }
void Xxh3::update(std::string_view bytes) { XXH3_64bits_update(state_, bytes.data(), bytes.size()); }
uint64_t Xxh3::digest() const { return XXH3_64bits_digest(state_); }

std::array<uint8_t, 32> sha256(std::string_view bytes) {
  std::array<uint8_t, SHA256_DIGEST_LENGTH> digest{};
  SHA2_CTX context;
  SHA256Init(&context);
  SHA256Update(&context, reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
  SHA256Final(digest.data(), &context);
  return digest;
}

std::string sha256_hex(std::string_view bytes) {
  std::string text;
  for (const uint8_t byte : sha256(bytes)) text += fmt::format("{:02x}", byte);
  return text;
}

}  // namespace trl::base
