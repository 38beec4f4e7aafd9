#include "base/files/hash.h"

#include <sys/types.h>

#include <sha2.h>
#include <xxhash.h>

#include <fmt/format.h>

#include <new>

#include "base/files/sha256.h"
#include "base/files/xxh3_code.h"

namespace trl::base {

namespace {

uint64_t hash_anywhere(const void* bytes, size_t size) { return XXH3_64bits(bytes, size); }
void update_anywhere(void* state, const void* bytes, size_t size) {
  XXH3_64bits_update(static_cast<XXH3_state_t*>(state), bytes, size);
}

const Xxh3Code& best_code() {
#if TRL_CPU_VARIANTS
  if (isa() >= Isa::avx512) return kXxh3Avx512;
  if (isa() >= Isa::avx2) return kXxh3Avx2;
#endif
  static constexpr Xxh3Code kAny = {hash_anywhere, update_anywhere};
  return kAny;
}

const Xxh3Code& code() {
  static const Xxh3Code& best = best_code();
  return best;
}

}  // namespace

uint64_t xxh3_64(std::string_view bytes) {
  constexpr size_t kShort = 240;  // up to here there is one code for all machines
  if (bytes.size() <= kShort) return XXH3_64bits(bytes.data(), bytes.size());
  return code().hash(bytes.data(), bytes.size());
}

Xxh3::Xxh3() : state_(XXH3_createState()) {
  if (state_ == nullptr) throw std::bad_alloc();
  XXH3_64bits_reset(state_);
}
Xxh3::~Xxh3() { XXH3_freeState(state_); }
void Xxh3::update(std::string_view bytes) { code().update(state_, bytes.data(), bytes.size()); }
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
