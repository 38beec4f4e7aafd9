#include "serve/weights/adapter_files.h"

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <memory>

#include "base/error.h"
#include "base/files/files.h"
#include "base/json/json.h"
#include "serve/api/error.h"

namespace trl::serve {

namespace {

constexpr const char* kConfig = "adapter_config.json";
constexpr const char* kFiles[] = {kConfig, "adapter_model.safetensors"};
constexpr uint64_t kConfigBytes = 1 << 20;

// Returns a path without links and dots; empty: there is no such file.
std::string real_path(const std::string& path) {
  const std::unique_ptr<char, void (*)(void*)> real(::realpath(path.c_str(), nullptr), std::free);
  return real == nullptr ? std::string() : real.get();
}

bool is_below(std::string_view path, std::string_view folder) {
  if (folder == "/") return true;
  return path.size() > folder.size() && path.starts_with(folder) && path[folder.size()] == '/';
}

void refuse_rank(const base::Json& rank, int64_t most) {
  if (!rank.is_number_integer() || rank < 1)
    fail(Status::format, "{}: the rank {} is not accepted; give a positive integer", kConfig, rank.dump());
  if (rank > most)
    throw Refusal(400,
                  fmt::format("LoRA rank {} is greater than max_lora_rank {} (serve.max_lora_rank)",
                              rank.get<int64_t>(), most),
                  "lora_path");
}

}  // namespace

std::string adapter_below(const std::string& folder, const std::string& path) {
  const std::string top = real_path(folder);
  if (top.empty()) fail(Status::not_found, "serve.adapter_dir: there is no folder {}", folder);
  const Refusal outside(403, fmt::format("lora_path: {} is not below the folder of adapters", path),
                        "lora_path");
  if (path.find('\0') != path.npos) throw outside;
  const std::string given = path.starts_with('/') ? path : base::join_path(top, path);
  const std::string real = real_path(given);
  // Outside, the answer does not tell whether a directory exists.
  const bool inside = (is_below(given, top) || is_below(given, folder)) && path.find("..") == path.npos;
  if (real.empty() && inside)
    throw Refusal(404, fmt::format("lora_path: there is no directory {}", path), "lora_path");
  if (real.empty() || !is_below(real, top)) throw outside;
  if (!base::is_directory(real))
    throw Refusal(404, fmt::format("lora_path: {} is not a directory", path), "lora_path");
  for (const char* name : kFiles) {
    const std::string file = real_path(base::join_path(real, name));
    if (!file.empty() && !is_below(file, top)) throw outside;
  }
  return real;
}

void check_files(const std::string& directory) {
  for (const char* name : kFiles) {
    std::error_code none;
    const std::string path = base::join_path(directory, name);
    if (std::filesystem::exists(path, none) && !std::filesystem::is_regular_file(path, none))
      throw Refusal(400, fmt::format("{}: not a regular file; give one", path), "lora_path");
  }
}

void check_rank(const std::string& directory, int64_t most) {
  check_files(directory);
  const std::string path = base::join_path(directory, kConfig);
  if (base::file_size(path) > kConfigBytes)
    fail(Status::format, "{}: it has more than {} bytes", path, kConfigBytes);
  const base::Json config = base::parse_json(base::read_file(path), path);
  if (!config.is_object()) fail(Status::format, "{}: it is not a JSON object", path);
  refuse_rank(config.value("r", base::Json()), most);
  const base::Json others = config.value("rank_pattern", base::Json::object());
  if (!others.is_object()) return;
  for (const base::Json& rank : others) refuse_rank(rank, most);
}

}  // namespace trl::serve
