// API keys, compared in constant time.
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace trl::serve {

class Keys {
 public:
  explicit Keys(const std::vector<std::string>& keys);
  bool any() const { return !digests_.empty(); }
  // authorization: the header field. Takes the same time for each value of a length.
  bool accept(std::string_view authorization) const;

 private:
  std::vector<std::array<uint8_t, 32>> digests_;
};

}  // namespace trl::serve
