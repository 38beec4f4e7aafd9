// ModelSource names the origin of a model: a directory, a GGUF file, or memory. All readers of models take
// it. It opens nothing before it is asked to, and each weights() and gguf() maps the files anew. It is cheap
// to copy, and keeps memory alive.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/files/named_files.h"

namespace trl::io {

class Gguf;
class Weights;
struct NamedTensor;
struct TensorMap;

// none: nothing is there; other: a file of another kind.
enum class ModelForm : uint8_t { none, other, directory, memory, gguf };

// The small files, such as config.json, are those of NamedFiles; a GGUF file has none.
class ModelSource : public base::NamedFiles {
 public:
  ModelSource() = default;
  ModelSource(std::string path) : NamedFiles(std::move(path)) {}  // of a directory or a GGUF file
  // name: for messages. tensors: under the names that a directory has; their data must live as long as
  // owner, or, if owner is null, as every copy of the source and every model opened from one.
  ModelSource(std::string name, std::map<std::string, std::string> files,
              const std::vector<NamedTensor>& tensors, std::shared_ptr<const void> owner = nullptr);

  ModelForm form() const;
  // Returns name(), or the kGgufFile in that directory if it has no weights in safetensors.
  std::string path() const;
  // Returns the weights of a directory or memory. named: of Weights::open_directory; ignored in memory, which
  // has the tensors themselves.
  Weights weights(const std::string& named = "") const;
  std::shared_ptr<const Gguf> gguf() const;  // form() is gguf

 private:
  std::shared_ptr<const TensorMap> tensors_;  // in memory
};

}  // namespace trl::io
