// safetensors: a memory-mapped file (or the shards of an index) as named plain arrays, and a writer.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/files/files.h"
#include "base/files/named_files.h"
#include "base/files/staged_directory.h"
#include "base/interrupt.h"
#include "io/half.h"

namespace trl::io {

// The types of numbers in weight files, and their conversion to float32; source bytes need no alignment. In
// the order of the tables in safetensors.cc.
enum class ElementType : uint8_t { f32, f16, bf16, f64, i64, i32, u8, other };
size_t element_size(ElementType type);             // 0 for other
std::string_view element_name(ElementType type);   // as safetensors spells it, "F32"
std::string_view element_dtype(ElementType type);  // as torch spells it, "float32"

// Reads the elements [first, first + count) of data as float32. type: f32, f16, bf16 or f64.
void read_floats(ElementType type, const void* data, int64_t first, int64_t count, float* out);

struct TensorView {
  ElementType type;
  std::string type_name;  // as in the file, "BF16"
  std::vector<int64_t> shape;
  const void* data;  // borrowed from the file; not aligned
  size_t bytes;
  std::string_view stored() const { return {static_cast<const char*>(data), bytes}; }
};

// Opens one file; throws Error(format) for a false header (size, offsets, overlap, shape x type != bytes).
class Safetensors {
 public:
  // late: as of MappedFile, for what tensors() have.
  explicit Safetensors(const std::string& path, bool late = false);
  const std::map<std::string, TensorView>& tensors() const { return tensors_; }
  const std::string& path() const { return file_.path(); }
  void check() const { file_.check(); }  // throws Error(io) if it was cut since it was opened

 private:
  base::MappedFile file_;
  std::map<std::string, TensorView> tensors_;
};

struct TensorMap {
  std::map<std::string, TensorView> views;
  std::shared_ptr<const void> owner;  // of their data
};

// All weights of a model: of memory, or of a directory: model.safetensors, or the shards that
// model.safetensors.index.json names. Files are opened late (MappedFile).
class Weights {
 public:
  // named: another weight file, or an index, there; empty: the usual ones. Throws Error(not_found) with the
  // weight files that are there instead.
  static Weights open_directory(const std::string& path, const std::string& named = "");
  const TensorView* find(std::string_view name) const;  // null: not there
  std::vector<std::string> names() const;
  // Returns tensors that are in memory already. name: of their place.
  static Weights in_memory(const std::string& name, std::shared_ptr<const TensorMap> tensors);
  const std::string& name() const { return name_; }  // of the directory, or of the place in memory
  void check() const {
    for (const auto& file : files_) file->check();
  }

 private:
  std::string name_;
  std::vector<std::unique_ptr<Safetensors>> files_;
  std::shared_ptr<const TensorMap> memory_;
  std::map<std::string, const TensorView*, std::less<>> tensors_;
};

struct NamedTensor {
  std::string name;
  ElementType type;
  std::vector<int64_t> shape;
  const void* data;
  // Used if data is null: writes the elements [first, first + count).
  std::function<void(int64_t first, int64_t count, char* out)> fill = {};

  size_t bytes() const;
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
// Returns whether a directory has weights under one of the usual names.
bool has_safetensors(const base::NamedFiles& directory);
// Returns whether write_weights gives this name to a file, or it is kGgufFile; a new save removes the files
// of an earlier one with such names.
bool is_weight_file(std::string_view name);

// Tells the progress of a call how many bytes of a file it has written.
class Written {
 public:
  explicit Written(int64_t total) : total_(total) { add(0); }
  void add(size_t bytes) { base::progress("save", done_ += static_cast<int64_t>(bytes), total_); }

 private:
  int64_t done_ = 0;
  const int64_t total_;
};

}  // namespace trl::io
