// Copies of many bytes whose checksum is computed on the way, so that they are read from memory once.
#pragma once
#include <cstdint>
#include <string_view>

#include "base/files/hash.h"

namespace trl::base {

// Copies bytes that come in pieces. What is copied does not displace what is in the caches.
class HashedCopy {
 public:
  // to: has room for all of them.
  explicit HashedCopy(char* to) : to_(to) {}
  // bytes: nobody changes them meanwhile.
  void add(std::string_view bytes);
  // bytes: somebody else may change them; the checksum is that of the bytes that were copied.
  void add_shared(std::string_view bytes);
  uint64_t hash() const { return hash_.digest(); }  // XXH3 of all bytes so far

 private:
  void put(std::string_view bytes, std::string_view next);
  char* to_;
  Xxh3 hash_;
};

}  // namespace trl::base
