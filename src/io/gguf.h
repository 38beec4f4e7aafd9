// GGUF: metadata and tensors as plain arrays; knows nothing of models. Block types are dequantised to
// float32.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/files/files.h"
#include "io/gguf_types.h"

namespace trl::io {

using GgufValue = std::variant<bool, int64_t, uint64_t, double, std::string, std::vector<std::string>,
                               std::vector<int64_t>, std::vector<double>>;

struct GgufTensor {
  std::string type_name;       // "F32", "Q8_0" (gguf_types.cc lists the supported ones)
  uint32_t type;               // ggml's number
  std::vector<int64_t> shape;  // row-major (reversed from the file's order): [out, in]
  const void* data;            // borrowed from the file
  size_t bytes;
  std::string_view stored() const { return {static_cast<const char*>(data), bytes}; }
};

class Gguf {
 public:
  // Throws Error(format): magic, version, truncation, false counts or offsets; Error(unsupported): an
  // unsupported tensor type. The data of a host's file are read late (MappedFile).
  explicit Gguf(const std::string& path);
  const std::map<std::string, GgufValue, std::less<>>& metadata() const { return metadata_; }
  const GgufValue* find(std::string_view key) const;
  // Typed reads; throw Error(format) naming file and key when the key is missing or of another type.
  std::string text(std::string_view key) const;
  int64_t integer(std::string_view key) const;
  double number(std::string_view key) const;
  const std::map<std::string, GgufTensor, std::less<>>& tensors() const { return tensors_; }
  const std::string& path() const { return file_.path(); }
  // Throws Error(unsupported), which says what to open instead, if the file holds an adapter and no model.
  void need_model() const;
  void check() const { file_.check(); }  // throws Error(io) if it was cut since it was opened

 private:
  base::MappedFile file_;
  std::map<std::string, GgufValue, std::less<>> metadata_;
  std::map<std::string, GgufTensor, std::less<>> tensors_;
};

// Returns whether path is a regular file that begins with the magic. Throws Error(format) for a Git LFS
// pointer.
bool is_gguf(const std::string& path);
// Dequantises the elements [first, first + count) of the flattened tensor to float32; first and count:
// multiples of the type's block.
void dequantize(const GgufTensor& tensor, int64_t first, int64_t count, float* out);

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
  void begin_array(std::string_view key, uint32_t type, size_t count);

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

// Writes a file of version 3; does not close. Needs a few megabytes of memory for tensors of any size.
void write_gguf(base::FileWriter& writer, const GgufPairs& metadata, const std::vector<GgufEntry>& tensors);

}  // namespace trl::io
