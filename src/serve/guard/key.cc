#include "serve/guard/key.h"

#include <nettle/memops.h>
#include <nettle/sha2.h>

namespace trl::serve {

Keys::Keys(const std::vector<std::string>& keys) {
  for (const std::string& key : keys) digests_.push_back(digest_of(key));
}

Keys::Digest Keys::digest_of(std::string_view key) {
  sha256_ctx context;
  sha256_init(&context);
  sha256_update(&context, key.size(), reinterpret_cast<const uint8_t*>(key.data()));
  Digest digest;
  sha256_digest(&context, digest.size(), digest.data());
  return digest;
}

bool Keys::accept(std::string_view authorization) const {
  constexpr std::string_view kScheme = "bearer ";
  bool scheme = authorization.size() >= kScheme.size();
  for (size_t i = 0; scheme && i < kScheme.size(); ++i) scheme = (authorization[i] | 0x20) == kScheme[i];
  const Digest given = digest_of(scheme ? authorization.substr(kScheme.size()) : std::string_view());
  int equal = 0;
  for (const Digest& digest : digests_) equal |= memeql_sec(given.data(), digest.data(), digest.size());
  return scheme && equal != 0;
}

}  // namespace trl::serve
