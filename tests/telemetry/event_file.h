// A reader of TensorBoard's event files that shares no code with the writer: every length and checksum is
// checked bit by bit, every field that is not known is a failure.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace trl::test {

inline uint32_t bitwise_masked_crc32c(std::string_view bytes) {
  uint32_t crc = 0xffffffffu;
  for (const char c : bytes) {
    crc ^= static_cast<uint8_t>(c);
    for (int i = 0; i < 8; ++i) crc = (crc & 1) != 0 ? (crc >> 1) ^ 0x82f63b78u : crc >> 1;
  }
  crc ^= 0xffffffffu;
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
}

struct LoggedEvent {
  double wall_time = 0;
  int64_t step = 0;
  std::string file_version;
  bool session_start = false;
  std::vector<std::pair<std::string, float>> scalars;
};

class ProtoReader {
 public:
  explicit ProtoReader(std::string_view bytes) : bytes_(bytes) {}
  bool done() const { return bytes_.empty(); }
  uint64_t varint() {
    uint64_t value = 0;
    for (int shift = 0; !bytes_.empty(); shift += 7) {
      const auto byte = static_cast<uint8_t>(bytes_.front());
      bytes_.remove_prefix(1);
      value |= static_cast<uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
    ADD_FAILURE() << "a number ends early";
    return 0;
  }
  template <typename T>
  T fixed() {
    T value{};
    EXPECT_GE(bytes_.size(), sizeof value);
    if (bytes_.size() >= sizeof value) std::memcpy(&value, bytes_.data(), sizeof value);
    bytes_.remove_prefix(std::min(bytes_.size(), sizeof value));
    return value;
  }
  std::string_view bytes() {
    const size_t size = static_cast<size_t>(varint());
    EXPECT_LE(size, bytes_.size());
    const std::string_view out = bytes_.substr(0, size);
    bytes_.remove_prefix(out.size());
    return out;
  }

 private:
  std::string_view bytes_;
};

inline std::pair<std::string, float> read_value(std::string_view bytes) {
  std::pair<std::string, float> value;
  for (ProtoReader reader(bytes); !reader.done();) {
    const uint64_t key = reader.varint();
    if (key == (1 << 3 | 2)) {
      value.first = reader.bytes();
    } else if (key == (2 << 3 | 5)) {
      value.second = reader.fixed<float>();
    } else {
      ADD_FAILURE() << "field " << key << " of a value";
      break;
    }
  }
  return value;
}

inline LoggedEvent read_event(std::string_view bytes) {
  LoggedEvent event;
  for (ProtoReader reader(bytes); !reader.done();) {
    const uint64_t key = reader.varint();
    if (key == (1 << 3 | 1)) {
      event.wall_time = reader.fixed<double>();
    } else if (key == (2 << 3)) {
      event.step = static_cast<int64_t>(reader.varint());
    } else if (key == (3 << 3 | 2)) {
      event.file_version = reader.bytes();
    } else if (key == (5 << 3 | 2)) {
      for (ProtoReader summary(reader.bytes()); !summary.done();) {
        EXPECT_EQ(summary.varint(), 1u << 3 | 2);
        event.scalars.push_back(read_value(summary.bytes()));
      }
    } else if (key == (7 << 3 | 2)) {
      event.session_start = reader.bytes() == std::string_view("\x08\x01", 2);
    } else {
      ADD_FAILURE() << "field " << key << " of an event";
      break;
    }
  }
  return event;
}

inline std::vector<LoggedEvent> read_events(std::string_view file) {
  std::vector<LoggedEvent> events;
  while (file.size() >= 16) {
    uint64_t length = 0;
    uint32_t crc = 0;
    std::memcpy(&length, file.data(), 8);
    std::memcpy(&crc, file.data() + 8, 4);
    EXPECT_EQ(crc, bitwise_masked_crc32c(file.substr(0, 8)));
    if (length > file.size() - 16) break;
    const std::string_view body = file.substr(12, length);
    std::memcpy(&crc, file.data() + 12 + length, 4);
    EXPECT_EQ(crc, bitwise_masked_crc32c(body));
    events.push_back(read_event(body));
    file.remove_prefix(16 + length);
  }
  EXPECT_TRUE(file.empty()) << file.size() << " bytes are left";
  return events;
}

}  // namespace trl::test
