// Saves a model directory: weights, config.json, generation_config.json, and files of the caller (tokenizer,
// chat template), which transformers loads unchanged; or one GGUF file, which llama.cpp loads; or an adapter
// as PEFT does: adapter_config.json and adapter_model.safetensors, without the weights of the model.
#pragma once
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/files/staged_directory.h"
#include "base/json/json.h"
#include "checkpoint/tensors.h"
#include "engine/host.h"
#include "engine/model.h"
#include "model/adapter/adapter.h"
#include "model/model.h"
#include "model/weights/weights.h"

namespace trl::checkpoint {

// Returns the bytes of the weights in the files of a model, and in its GGUF file of a type, as in
// gguf_type().
int64_t weight_bytes(model::Model& model);
int64_t gguf_bytes(model::Model& model, std::string_view type);

// Writes the files of a model into a directory that the caller commits. Returns the names of the weight
// files.
std::vector<std::string> write_model(base::StagedDirectory& staged, model::Model& model,
                                     std::span<const engine::NamedBytes> files, int64_t max_shard_bytes);

// Makes everything appear together or not at all: written to a temporary directory, synced, renamed. In an
// existing directory the other files stay, except weight files of an earlier save that are not written again.
void save_model(const std::string& directory, model::Model& model, std::span<const engine::NamedBytes> files,
                const base::WriteFault* fault = nullptr, int64_t max_shard_bytes = io::kMaxShardBytes);

// Adds a README.md for a model that is saved into the directory, unless one exists there or is among the
// files. base: the path that the model was opened from. tags: of the saving command or run. text: keeps the
// bytes.
std::vector<engine::NamedBytes> with_card(const std::string& directory, const model::Model& model,
                                          const std::string& base, std::span<const engine::NamedBytes> files,
                                          std::span<const std::string_view> tags, bool gguf,
                                          std::string& text);

// The files of a model that is not open.
struct DirectoryFiles {
  std::vector<io::NamedTensor> tensors;
  base::Json config, generation_config;
  std::span<const engine::NamedBytes> files;
  std::function<void()> check = {};  // called before the files appear; throws if their contents are wrong
};
void save_files(const std::string& directory, const DirectoryFiles& files);

// The single file model.gguf, which holds the whole model: save_format gguf.
struct GgufFormat {
  std::string type;  // as in gguf_type(); auto: the type of the weights
  engine::GgufVocabulary vocabulary;
  std::span<const engine::NamedBytes> files = {};  // saved with it
};
void save_gguf(const std::string& directory, model::Model& model, const GgufFormat& format,
               base::LogSink* log = nullptr, const base::WriteFault* fault = nullptr);

const char* dtype_name(const model::Model& model);  // "bfloat16", "float32"

// Sets the type of the weights that are saved with config.json.
void set_dtype(base::Json& config, const std::string& name);

// Returns config.json as loaded, except for the parts that this save decides: the type of the weights, their
// class, and whether head and embedding are one.
base::Json saved_config(model::Model& model);
model::ModelConfig saved_model_config(model::Model& model);

// Returns the text of adapter_config.json.
std::string config_text(const model::Adapter& adapter);
// Writes into a directory that the caller commits.
void write_adapter(base::StagedDirectory& staged, const model::Adapter& adapter,
                   std::span<const engine::NamedBytes> files);
int64_t weight_bytes(const model::Adapter& adapter);  // bytes of the tensors in its files
// Writes README.md, unless it is one of the files. tags: of the saving command or run.
void write_card(base::StagedDirectory& staged, const model::Adapter& adapter,
                std::span<const engine::NamedBytes> files, std::span<const std::string_view> tags);

// Saves all files together or none; other files in an existing directory stay, a README.md too.
void save_adapter(const std::string& directory, const model::Adapter& adapter,
                  std::span<const engine::NamedBytes> files, std::span<const std::string_view> tags = {},
                  const base::WriteFault* fault = nullptr);

// The weights of a model in memory, as its files would hold them: the source for saving a model that is
// trained, or has an adapter merged into it.
class MemoryWeights final : public model::WeightSource {
 public:
  explicit MemoryWeights(model::Model& model);
  std::string place(const std::string& name) const override { return "tensor " + name; }
  std::string asks(const std::string&) const override { return "the model asks"; }
  const std::vector<int64_t>* shape(const std::string& name) const override;
  void read(const std::string&, at::Tensor&) const override;
  void read(const std::string& name, int64_t first, int64_t count, float* out) const override;
  void forget(const std::string&) const override {}
  void check() const override { model_.check_files(); }
  std::string type(const std::string& name) const override {
    return std::string(io::element_name(tensors_.at(name).type));
  }
  std::vector<std::string> others(const std::set<std::string>& used) const override;

 private:
  const model::Model& model_;
  std::vector<at::Tensor> host_;
  std::map<std::string, io::NamedTensor> tensors_;
};

}  // namespace trl::checkpoint
