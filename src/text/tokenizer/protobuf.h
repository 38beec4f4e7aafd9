// Reads the fields of a serialized Protocol Buffers message in order; refuses groups, which are no longer
// written.
#pragma once
#include <cstdint>
#include <string_view>

namespace trl::text {

class ProtobufReader {
 public:
  enum class Kind : uint8_t { integer = 0, eight_bytes = 1, bytes = 2, four_bytes = 5 };
  struct Field {
    uint32_t number;
    Kind kind;
    uint64_t integer;        // value of kind integer
    std::string_view bytes;  // value of the other kinds
    std::string_view whole;  // with its tag
  };

  explicit ProtobufReader(std::string_view message) : rest_(message) {}

  // false: the message is at its end, or broken.
  bool next(Field& field) {
    const std::string_view before = rest_;
    uint64_t tag = 0;
    if (rest_.empty()) return false;
    good_ = read_integer(tag) && tag <= UINT32_MAX && tag >> 3 != 0;
    if (!good_) return false;
    field = {static_cast<uint32_t>(tag >> 3), static_cast<Kind>(tag & 7), 0, {}, {}};
    good_ = read_value(field);
    field.whole = before.substr(0, before.size() - rest_.size());
    return good_;
  }
  bool good() const { return good_; }

 private:
  bool read_value(Field& field) {
    switch (field.kind) {
      case Kind::integer:
        return read_integer(field.integer);
      case Kind::eight_bytes:
        return take(8, field.bytes);
      case Kind::four_bytes:
        return take(4, field.bytes);
      case Kind::bytes: {
        uint64_t size = 0;
        return read_integer(size) && take(size, field.bytes);
      }
    }
    return false;
  }
  bool read_integer(uint64_t& value) {
    value = 0;
    for (int shift = 0; shift < 64 && !rest_.empty(); shift += 7) {
      const auto byte = static_cast<unsigned char>(rest_[0]);
      rest_.remove_prefix(1);
      value |= static_cast<uint64_t>(byte & 127) << shift;
      if (byte < 128) return true;
    }
    return false;
  }
  bool take(uint64_t size, std::string_view& bytes) {
    if (size > rest_.size()) return false;
    bytes = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return true;
  }

  std::string_view rest_;
  bool good_ = true;
};

}  // namespace trl::text
