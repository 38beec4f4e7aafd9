// A checkpoint: a saved model (transformers loads it) and everything that a run needs to resume from there
// bit by bit. README.md describes the files.
#pragma once
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/files/staged_directory.h"
#include "base/json/json.h"
#include "checkpoint/save.h"
#include "optim/optim.h"

namespace trl::checkpoint {

// checksums.json: the list of a checkpoint's files, and the run that wrote it. A directory without it is not
// a checkpoint of this library.
inline constexpr std::string_view kManifestName = "checksums.json";

struct Manifest {
  std::string run;  // the same for all checkpoints of a run, resumed ones included
  std::vector<base::StagedDirectory::File> files;
};

// Writes the manifest as the last file of the directory.
void write_manifest(base::StagedDirectory& staged, const std::string& run);
// Returns none if the file is missing. Throws Error(format) if it cannot be understood.
std::optional<Manifest> read_manifest(const std::string& directory);

// Returns whether a directory without a manifest is one of our checkpoints that has lost the file, or empty,
// and so damaged.
bool lost_manifest(const std::string& directory);

struct Contents {
  std::string run;
  model::Model* model = nullptr;
  std::span<const engine::NamedBytes> files;
  std::vector<std::string_view> tags;  // tags of an adapter's model card
  int64_t max_shard_bytes = io::kMaxShardBytes;
  std::string trainer_state;  // trainer_state.json
  // The rest is left out of a checkpoint with only the model (save_only_model).
  bool resumable = true;
  base::Json state;          // trl_state.json
  std::string source_state;  // of the source of batches; empty: it has none
  std::vector<optim::StateTensor> optimizer;
};

// Saves a checkpoint, which appears whole or not at all, also in place of an earlier one. Tensors are written
// from their memory without a copy. A directory that is not a checkpoint of this run is refused.
void save_checkpoint(const std::string& directory, const Contents& contents,
                     const base::WriteFault* fault = nullptr);

// Returns the manifest of a checkpoint and reads nothing else. Throws Error(not_found) or Error(format).
Manifest resumable(const std::string& directory);

// A checkpoint that passed the check: every file is as it was written. Throws Error(format) naming the file,
// or Error(not_found).
class Checkpoint {
 public:
  explicit Checkpoint(std::string directory);
  const std::string& directory() const { return directory_; }
  const std::string& run() const { return manifest_.run; }
  std::string trainer_state() const;
  base::Json state() const;  // Error(format) if it holds only the model
  std::string source_state() const;

  bool has(const std::vector<optim::StateTensor>& optimizer) const;  // it has a state of each name

  // Loads into the weights in memory. Everything is checked before the first byte is changed.
  void load_model(model::Model& model) const;
  void load(model::Model& model, const std::vector<optim::StateTensor>& optimizer) const;

 private:
  std::string directory_;
  Manifest manifest_;
};

}  // namespace trl::checkpoint
