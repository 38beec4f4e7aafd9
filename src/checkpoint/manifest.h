// checksums.json: the list of a checkpoint's files, and the run that wrote it. A directory without it is not
// a checkpoint of this library.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "base/files/staged_directory.h"

namespace trl::checkpoint {

inline constexpr std::string_view kManifestName = "checksums.json";

struct Manifest {
  std::string run;  // the same for all checkpoints of a run, resumed ones included
  std::vector<base::StagedDirectory::File> files;
};

// Writes the manifest as the last file of the directory.
void write_manifest(base::StagedDirectory& staged, const std::string& run);
// Returns none if the file is missing. Throws Error(format) if it cannot be understood.
std::optional<Manifest> read_manifest(const std::string& directory);
// Throws Error(format) naming the first file that is missing, truncated or changed.
void verify(const std::string& directory, const Manifest& manifest);

// Returns whether a directory without a manifest is one of our checkpoints that has lost the file, or empty,
// and so damaged.
bool lost_manifest(const std::string& directory);

}  // namespace trl::checkpoint
