#include "serve/guard/key.h"

#include "base/files/sha256.h"

namespace trl::serve {

namespace {

bool same(const std::array<uint8_t, 32>& a, const std::array<uint8_t, 32>& b) {
  unsigned differing = 0;
  for (size_t i = 0; i < a.size(); ++i) differing |= a[i] ^ b[i];
  return differing == 0;
}

}  // namespace

Keys::Keys(const std::vector<std::string>& keys) {
  for (const std::string& key : keys) digests_.push_back(base::sha256(key));
}

bool Keys::accept(std::string_view authorization) const {
  constexpr std::string_view kScheme = "bearer ";
  bool scheme = authorization.size() >= kScheme.size();
  for (size_t i = 0; scheme && i < kScheme.size(); ++i) scheme = (authorization[i] | 0x20) == kScheme[i];
  const auto given = base::sha256(scheme ? authorization.substr(kScheme.size()) : std::string_view());
  unsigned equal = 0;
  for (const auto& digest : digests_) equal |= same(given, digest) ? 1U : 0U;
  return scheme && equal != 0;
}

}  // namespace trl::serve
