#include "cli/hub/digest.h"

#include <fmt/format.h>

#include <span>
#include <utility>

namespace trl::cli::hub {

namespace {

std::string hex_of(std::span<const uint8_t> bytes) {
  std::string text;
  for (const uint8_t byte : bytes) text += fmt::format("{:02x}", byte);
  return text;
}

}  // namespace

Digest::Digest(std::string expected, int64_t size) : expected_(std::move(expected)), size_(size) { begin(); }

void Digest::begin() {
  nettle_sha256_init(&sha256_);
  nettle_sha1_init(&sha1_);
  if (is_sha256()) return;
  const std::string header = fmt::format("blob {}", size_);
  nettle_sha1_update(&sha1_, header.size() + 1,
                     reinterpret_cast<const uint8_t*>(header.c_str()));  // with its terminating NUL
}

void Digest::update(std::string_view bytes) {
  const auto* data = reinterpret_cast<const uint8_t*>(bytes.data());
  if (is_sha256()) {
    nettle_sha256_update(&sha256_, bytes.size(), data);
  } else {
    nettle_sha1_update(&sha1_, bytes.size(), data);
  }
}

std::string Digest::hex() {
  uint8_t sum[SHA256_DIGEST_SIZE];
  const size_t size = is_sha256() ? SHA256_DIGEST_SIZE : SHA1_DIGEST_SIZE;
  if (is_sha256()) {
    nettle_sha256_digest(&sha256_, size, sum);
  } else {
    nettle_sha1_digest(&sha1_, size, sum);
  }
  begin();
  return hex_of({sum, size});
}

}  // namespace trl::cli::hub
