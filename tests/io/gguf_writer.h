// Makes small GGUF files (version 3 unless told), right or wrong on purpose.
#pragma once
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace trl::test {

enum : uint32_t {
  kU8 = 0,
  kI8 = 1,
  kU16 = 2,
  kU32 = 4,
  kI32 = 5,
  kF32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9,
  kU64 = 10
};

class GgufWriter {
 public:
  uint32_t version = 3;
  uint64_t alignment = 32;
  uint64_t extra_tensors = 0;  // added to the count, not written
  uint64_t extra_pairs = 0;

  template <typename T>
  static std::string raw(T value) {
    std::string bytes(sizeof value, '\0');
    std::memcpy(bytes.data(), &value, sizeof value);
    return bytes;
  }
  static std::string text(std::string_view value) { return raw<uint64_t>(value.size()) + std::string(value); }

  void pair(std::string_view key, uint32_t type, std::string_view value_bytes) {
    pairs_ += text(key) + raw(type) + std::string(value_bytes);
    ++pair_count_;
  }
  void add(std::string_view key, std::string_view value) { pair(key, kString, text(value)); }
  void add(std::string_view key, const char* value) { pair(key, kString, text(value)); }
  void add(std::string_view key, uint32_t value) { pair(key, kU32, raw(value)); }
  void add(std::string_view key, float value) { pair(key, kF32, raw(value)); }
  void add(std::string_view key, bool value) { pair(key, kBool, raw<uint8_t>(value)); }
  void add(std::string_view key, const std::vector<std::string>& values) {
    std::string bytes = raw(uint32_t{kString}) + raw<uint64_t>(values.size());
    for (const std::string& value : values) bytes += text(value);
    pair(key, kArray, bytes);
  }

  // shape row-major, as the reader gives it back.
  void tensor(std::string_view name, const std::vector<int64_t>& shape, uint32_t type,
              std::string_view data) {
    tensor_at(name, shape, type, data_.size(), data);
  }
  void tensor_at(std::string_view name, const std::vector<int64_t>& shape, uint32_t type, uint64_t offset,
                 std::string_view data) {
    infos_ += text(name) + raw(static_cast<uint32_t>(shape.size()));
    for (size_t i = shape.size(); i-- > 0;) infos_ += raw(static_cast<uint64_t>(shape[i]));
    infos_ += raw(type) + raw(offset);
    data_ += data;
    data_.resize((data_.size() + alignment - 1) / alignment * alignment, '\0');
    ++tensor_count_;
  }
  void tensor(std::string_view name, const std::vector<int64_t>& shape, const std::vector<float>& values) {
    tensor(name, shape, 0, {reinterpret_cast<const char*>(values.data()), values.size() * 4});
  }

  std::string bytes() const {
    std::string out =
        "GGUF" + raw(version) + raw(tensor_count_ + extra_tensors) + raw(pair_count_ + extra_pairs);
    out += pairs_ + infos_;
    out.resize((out.size() + alignment - 1) / alignment * alignment, '\0');
    return out + data_;
  }

 private:
  std::string pairs_, infos_, data_;
  uint64_t tensor_count_ = 0, pair_count_ = 0;
};

}  // namespace trl::test
