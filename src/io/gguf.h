// GGUF: metadata and tensors as plain arrays; knows nothing of models. Block types are dequantised to
// float32.
#pragma once
#include <cstdint>
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
};

class Gguf {
 public:
  // Throws Error(format): magic, version, truncation, false counts or offsets; Error(unsupported): an
  // unsupported tensor type.
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

}  // namespace trl::io
