// The tables in which the dynamic linker finds a library's names.
#pragma once
#include <elf.h>

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

namespace trl::bundle {

// Strings one after the other, each of them once.
class Strings {
 public:
  uint32_t add(const std::string& text);
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_ = std::string(1, '\0');
  std::unordered_map<std::string, uint32_t> offsets_{{"", 0}};
};

uint32_t version_hash(const std::string& name);

// Orders names as DT_GNU_HASH asks for.
class NameHash {
 public:
  explicit NameHash(std::vector<std::string> names);
  // The place in this order -> in the list that was given.
  const std::vector<uint32_t>& order() const { return order_; }
  // Returns the table, if the first of the names is that symbol of the library.
  std::string table(uint32_t first) const;

 private:
  std::vector<uint32_t> hashes_;  // by the list that was given
  std::vector<uint32_t> order_;
  uint32_t buckets_ = 1;
};

}  // namespace trl::bundle
