// Writes GGUF files, version 3.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/files/files.h"
#include "io/gguf_types.h"

namespace trl::io {

// Metadata as encoded in a file. llama.cpp reads a key only in the type that it expects, so the type of the
// argument counts.
class GgufPairs {
 public:
  GgufPairs() = default;
  GgufPairs(uint64_t count, std::string bytes) : bytes_(std::move(bytes)), count_(count) {}

  void add(std::string_view key, uint32_t value);
  void add(std::string_view key, float value);
  void add(std::string_view key, bool value);
  void add(std::string_view key, std::string_view value);
  void add(std::string_view key, const char* value) { add(key, std::string_view(value)); }
  void add(std::string_view key, const std::vector<std::string>& values);
  void add(std::string_view key, const std::vector<int32_t>& values);
  void add(std::string_view key, const std::vector<float>& values);
  void add(std::string_view key, const std::vector<bool>& values);
  void append(const GgufPairs& other);

  uint64_t count() const { return count_; }
  const std::string& bytes() const { return bytes_; }

 private:
  void begin(std::string_view key, uint32_t type);

  std::string bytes_;
  uint64_t count_ = 0;
};

// A tensor that is computed while it is written.
struct GgufEntry {
  std::string name;
  std::vector<int64_t> shape;  // row-major
  const GgmlType* type;
  // Writes the elements [first, first + count) of the flattened tensor, in blocks of the type. Both are
  // multiples of 256 if no row ends before.
  std::function<void(int64_t first, int64_t count, uint8_t* out)> encode;
};

// Writes the file; does not close. Needs a few megabytes of memory for tensors of any size.
void write_gguf(base::FileWriter& writer, const GgufPairs& metadata, const std::vector<GgufEntry>& tensors);

}  // namespace trl::io
