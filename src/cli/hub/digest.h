// The two checksums that the hub gives for its files.
#pragma once
#include <nettle/sha1.h>
#include <nettle/sha2.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace trl::cli::hub {

// Computes SHA-256 for a file in Git LFS, or SHA-1 of the git blob, over bytes as they arrive.
class Digest {
 public:
  // expected: 64 hexadecimal digits mean SHA-256, 40 mean git's SHA-1, which hashes the size first.
  Digest(std::string expected, int64_t size);
  void update(std::string_view bytes);
  std::string hex();  // for all bytes so far; the digest is then empty again
  bool is_sha256() const { return expected_.size() == 64; }
  const std::string& expected() const { return expected_; }

 private:
  void begin();
  std::string expected_;
  int64_t size_;
  sha256_ctx sha256_;
  sha1_ctx sha1_;
};

}  // namespace trl::cli::hub
