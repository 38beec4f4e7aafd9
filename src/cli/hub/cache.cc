#include "cli/hub/cache.h"

#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string_view>

#include "cli/hub/hub_error.h"

namespace trl::cli::hub {

namespace {

namespace fs = std::filesystem;

constexpr const char* kTag =
    "Signature: 8a477f597d28d172789f06886806bc55\n"
    "# This file is a cache directory tag created by huggingface_hub.\n"
    "# For information about cache directory tags, see:\n"
    "#\thttps://bford.info/cachedir/\n";

[[noreturn]] void fail_write(const std::string& path, const std::string& why) {
  throw HubError(fmt::format(
      "the Hugging Face cache cannot be written: {}: {}; HF_HUB_CACHE names another directory", path, why));
}

void make_directory(const fs::path& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error) fail_write(path.string(), error.message());
}

std::string contents(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// Writes a file that appears whole or not at all: a reader never sees a part of it.
void write_whole(const std::string& path, std::string_view text) {
  make_directory(fs::path(path).parent_path());
  const std::string part = fmt::format("{}.{}.tmp", path, getpid());
  std::ofstream out(part, std::ios::binary);
  out.write(text.data(), static_cast<std::streamsize>(text.size()));
  out.close();
  std::error_code error;
  if (out) fs::rename(part, path, error);
  if (out && !error) return;
  const std::string why = error ? error.message() : "the file could not be written";
  fs::remove(part, error);
  fail_write(path, why);
}

}  // namespace

Cache::Cache(const std::string& root, const Repo& repo)
    : root_(root),
      revision_(repo.revision),
      folder_(root + "/" + repo.folder()),
      repo_folder_(repo.folder()) {}

std::string Cache::commit() const {
  if (is_commit(revision_)) return revision_;
  const std::string commit = contents(folder_ + "/refs/" + revision_);
  return is_commit(commit) ? commit : "";
}

bool Cache::read_listing(const std::string& commit, Listing& listing) const {
  const auto json = nlohmann::json::parse(contents(folder_ + "/trees/" + commit + ".json"), nullptr, false);
  listing.clear();
  return json.is_object() && parse_listing(json, listing);
}

std::string Cache::snapshot(const std::string& commit) const { return folder_ + "/snapshots/" + commit; }

bool Cache::has(const std::string& commit, const std::string& path) const {
  std::error_code error;
  return fs::is_regular_file(snapshot(commit) + "/" + path, error);
}

std::string Cache::blob(const std::string& checksum) const { return folder_ + "/blobs/" + checksum; }

std::string Cache::lock(const std::string& checksum) const {
  return fmt::format("{}/.locks/{}/{}.lock", root_, repo_folder_, checksum);
}

void Cache::begin() const {
  make_directory(folder_ + "/blobs");
  make_directory(folder_ + "/snapshots");
  make_directory(root_ + "/.locks/" + repo_folder_);
  std::error_code error;
  if (!fs::exists(root_ + "/CACHEDIR.TAG", error)) write_whole(root_ + "/CACHEDIR.TAG", kTag);
}

void Cache::write_commit(const std::string& commit) const {
  const std::string path = folder_ + "/refs/" + revision_;
  if (revision_ != commit && contents(path) != commit) write_whole(path, commit);
}

void Cache::write_listing(const std::string& commit, const Listing& listing) const {
  write_whole(folder_ + "/trees/" + commit + ".json", listing_json(listing).dump(1));
}

void Cache::link(const std::string& commit, const std::string& path, const std::string& checksum) const {
  const fs::path pointer = fs::path(snapshot(commit)) / path;
  make_directory(pointer.parent_path());
  const fs::path target = fs::path(blob(checksum)).lexically_relative(pointer.parent_path());
  const std::string fresh = fmt::format("{}.{}.tmp", pointer.string(), getpid());
  std::error_code error;
  fs::remove(fresh, error);
  fs::create_symlink(target, fresh, error);
  if (!error) fs::rename(fresh, pointer, error);
  if (error) fail_write(pointer.string(), error.message());
}

}  // namespace trl::cli::hub
