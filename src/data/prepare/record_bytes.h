// The encoding of records as bytes: numbers are LEB128, ids are copied as they are.
#pragma once
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"

namespace trl::data {

class RecordWriter {
 public:
  void number(uint64_t value) {
    for (; value >= 0x80; value >>= 7) out_.push_back(static_cast<char>(value | 0x80));
    out_.push_back(static_cast<char>(value));
  }
  void ids(const std::vector<int32_t>& values) {
    out_.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(int32_t));
  }
  void text(std::string_view value) {
    number(value.size());
    out_ += value;
  }
  std::string take() { return std::move(out_); }

 private:
  std::string out_;
};

class RecordReader {
 public:
  explicit RecordReader(std::string_view bytes) : bytes_(bytes) {}
  uint64_t number() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      if (bytes_.empty()) fail_damaged();
      const auto byte = static_cast<unsigned char>(bytes_.front());
      bytes_.remove_prefix(1);
      value |= static_cast<uint64_t>(byte & 0x7F) << shift;
      if (byte < 0x80) return value;
    }
    fail_damaged();
  }
  // Reads a count of items that take at least bytes_each.
  size_t count(size_t bytes_each) {
    const uint64_t value = number();
    if (value > bytes_.size() / bytes_each) fail_damaged();
    return static_cast<size_t>(value);
  }
  std::vector<int32_t> ids(size_t count) {
    std::vector<int32_t> values(count);
    if (count > bytes_.size() / sizeof(int32_t)) fail_damaged();
    if (count > 0) std::memcpy(values.data(), bytes_.data(), count * sizeof(int32_t));
    bytes_.remove_prefix(count * sizeof(int32_t));
    return values;
  }
  std::string text() {
    const size_t size = count(1);
    std::string value(bytes_.substr(0, size));
    bytes_.remove_prefix(size);
    return value;
  }
  void finish() const {
    if (!bytes_.empty()) fail_damaged();
  }
  [[noreturn]] static void fail_damaged() { fail(Status::format, "a prepared row is damaged"); }

 private:
  std::string_view bytes_;
};

}  // namespace trl::data
