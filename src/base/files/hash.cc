#include "base/files/hash.h"

#include <nettle/sha2.h>
#include <xxhash.h>

#include <fmt/format.h>

#include <new>

namespace trl::base {

uint64_t xxh3_64(std::string_view bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }

Xxh3::Xxh3() : state_(XXH3_createState()) {
  if (state_ == nullptr) throw std::bad_alloc();
  XXH3_64bits_reset(state_);
}
Xxh3::~Xxh3() { XXH3_freeState(state_); }
void Xxh3::update(std::string_view bytes) { XXH3_64bits_update(state_, bytes.data(), bytes.size()); }
uint64_t Xxh3::digest() const { return XXH3_64bits_digest(state_); }

std::string sha256_hex(std::string_view bytes) {
  sha256_ctx context;
  sha256_init(&context);
  sha256_update(&context, bytes.size(), reinterpret_cast<const uint8_t*>(bytes.data()));
  uint8_t digest[SHA256_DIGEST_SIZE];
  sha256_digest(&context, sizeof digest, digest);
  std::string text;
  for (const uint8_t byte : digest) text += fmt::format("{:02x}", byte);
  return text;
}

}  // namespace trl::base
