// Saves a model directory: weights, config.json, generation_config.json, and files of the caller (tokenizer,
// chat template), which transformers loads unchanged; or one GGUF file, which llama.cpp loads.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "base/files/staged_directory.h"
#include "engine/engine.h"
#include "io/safetensors.h"
#include "model/model.h"

namespace trl::checkpoint {

// Throws Error(invalid_argument) for a name that no file of the caller may have in a saved directory.
void check_file_name(std::string_view name);

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

}  // namespace trl::checkpoint
