// safetensors: a memory-mapped file (or the shards of an index) as named plain arrays, and a writer.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/files/files.h"
#include "base/files/staged_directory.h"
#include "io/elements.h"

namespace trl::io {

struct TensorView {
  ElementType type;
  std::string type_name;  // as in the file, "BF16"
  std::vector<int64_t> shape;
  const void* data;  // borrowed from the file; not aligned
  size_t bytes;
};

// Opens one file; throws Error(format) for a false header (size, offsets, overlap, shape x type != bytes).
class Safetensors {
 public:
  explicit Safetensors(const std::string& path);
  const std::map<std::string, TensorView>& tensors() const { return tensors_; }
  const std::string& path() const { return file_.path(); }
  void check() const { file_.check(); }  // throws Error(io) if it was cut since it was opened

 private:
  base::MappedFile file_;
  std::map<std::string, TensorView> tensors_;
};

// All weights of a model directory: model.safetensors, or the shards that model.safetensors.index.json names.
class Weights {
 public:
  // named: another weight file, or an index, there; empty: the usual ones. Throws Error(not_found) with the
  // weight files that are there instead.
  static Weights open_directory(const std::string& path, const std::string& named = "");
  const TensorView* find(std::string_view name) const;  // null: not there
  std::vector<std::string> names() const;
  const std::string& directory() const { return directory_; }
  void check() const {
    for (const auto& file : files_) file->check();
  }

 private:
  std::string directory_;
  std::vector<std::unique_ptr<Safetensors>> files_;
  std::map<std::string, const TensorView*, std::less<>> tensors_;
};

struct NamedTensor {
  std::string name;
  ElementType type;
  std::vector<int64_t> shape;
  const void* data;
  // Used if data is null: writes the elements [first, first + count).
  std::function<void(int64_t first, int64_t count, char* out)> fill = {};
};
// Writes metadata {"format": "pt"}; wider types first, so that every tensor is aligned. Does not close.
void write_safetensors(base::FileWriter& writer, const std::vector<NamedTensor>& tensors);
void write_safetensors(const std::string& path, const std::vector<NamedTensor>& tensors);  // a whole file
inline constexpr int64_t kMaxShardBytes = 50'000'000'000;  // transformers' default
// Writes one file, or shards of at most max_shard_bytes (a larger tensor has its own) with
// model.safetensors.index.json. Returns the names written.
std::vector<std::string> write_weights(base::StagedDirectory& directory,
                                       const std::vector<NamedTensor>& tensors,
                                       int64_t max_shard_bytes = kMaxShardBytes);
inline constexpr std::string_view kGgufFile = "model.gguf";
// Returns the path itself, or its kGgufFile if it is a directory without weights in safetensors.
std::string model_path(const std::string& path);
// Returns whether write_weights gives this name to a file, or it is kGgufFile; a new save removes the files
// of an earlier one with such names.
bool is_weight_file(std::string_view name);

}  // namespace trl::io
