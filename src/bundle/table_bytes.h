// Entries of a table as bytes, outside a file.
#pragma once
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace trl::bundle {

inline constexpr uint64_t kTableAlignment = 8;

template <typename T>
std::string bytes_of(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

template <typename T>
T value_at(const std::string& bytes, uint64_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

template <typename T>
void put_at(std::string& bytes, uint64_t offset, const T& value) {
  std::memcpy(bytes.data() + offset, &value, sizeof value);
}

}  // namespace trl::bundle
