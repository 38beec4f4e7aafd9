#include "checkpoint/manifest.h"

#include <filesystem>

#include "base/error.h"
#include "base/files/hash.h"
#include "base/json/json.h"

namespace trl::checkpoint {

namespace {

using base::Json;
using File = base::StagedDirectory::File;

std::string hex(uint64_t value) { return fmt::format("{:016x}", value); }

// Returns the checksum of the manifest's own content.
std::string own_sum(const Json& run, const Json& files) {
  return hex(base::xxh3_64(Json{{"run", run}, {"files", files}}.dump()));
}

}  // namespace

void write_manifest(base::StagedDirectory& staged, const std::string& run) {
  Json files = Json::object();
  for (const File& file : staged.written())
    files[file.name] = {{"size", file.size}, {"xxh3", hex(file.xxh3)}};
  const Json manifest = {{"run", run}, {"files", files}, {"xxh3", own_sum(run, files)}};
  staged.write(kManifestName, manifest.dump(2) + "\n");
}

std::optional<Manifest> read_manifest(const std::string& directory) {
  const std::string path = base::join_path(directory, kManifestName);
  if (!base::file_exists(path)) return std::nullopt;
  const Json json = base::read_json_file(path);
  try {
    Manifest manifest{json.at("run").get<std::string>(), {}};
    if (json.contains("xxh3") && json["xxh3"] != own_sum(json["run"], json.at("files")))
      fail(Status::format,
           "{}: the checkpoint is damaged: the file has changed since it was written (checksum)", path);
    for (const auto& [name, file] : json.at("files").items()) {
      if (!base::is_plain_path(name))  // a manifest cannot be trusted
        fail(Status::format, "{}: \"{}\" is not the name of a file beside it", path, name);
      const std::string sum = file.at("xxh3").get<std::string>();
      size_t used = 0;
      const uint64_t value = std::stoull(sum, &used, 16);
      if (used != sum.size()) fail(Status::format, "{}: \"{}\" is not a checksum", path, sum);
      manifest.files.push_back({name, file.at("size").get<uint64_t>(), value});
    }
    return manifest;
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {  // thrown by nlohmann or stoull
    fail(Status::format, "{}: not a list of checksums: {}", path, error.what());
  }
}

bool lost_manifest(const std::string& directory) {
  return base::file_exists(base::join_path(directory, "trl_state.json")) ||
         base::list_directory(directory).empty();
}

void verify(const std::string& directory, const Manifest& manifest) {
  for (const File& file : manifest.files) {
    const std::string path = base::join_path(directory, file.name);
    std::error_code error;
    const auto size = std::filesystem::file_size(path, error);
    if (error) fail(Status::format, "{}: the checkpoint is damaged: the file is missing", path);
    if (size != file.size) {
      fail(Status::format, "{}: the checkpoint is damaged: the file has {} bytes instead of {}", path, size,
           file.size);
    }
    if (base::file_xxh3(path) != file.xxh3) {
      fail(Status::format,
           "{}: the checkpoint is damaged: the file has changed since it was written (checksum)", path);
    }
  }
}

}  // namespace trl::checkpoint
