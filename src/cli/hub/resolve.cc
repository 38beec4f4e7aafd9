#include "cli/hub/resolve.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

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
  const std::string why = error ? error.message() : std::strerror(errno);
  fs::remove(part, error);
  fail_write(path, why);
}

namespace fs = std::filesystem;

// Lists the files of a snapshot that another program downloaded one by one: no list of them was saved.
Listing cached_files(const Cache& cache, const std::string& commit) {
  Listing files;
  std::error_code error;
  const fs::path folder = cache.snapshot(commit);
  for (auto at = fs::recursive_directory_iterator(folder, error);
       !error && at != fs::recursive_directory_iterator(); at.increment(error))
    if (cache.has(commit, at->path().lexically_relative(folder).string()))
      files.push_back({at->path().lexically_relative(folder).string(), 0, "", "", ""});
  std::ranges::sort(files, [](const HubFile& a, const HubFile& b) { return a.path < b.path; });
  return files;
}

// Returns whether the index of the weights names a missing shard.
bool lacks_shards(const Cache& cache, const std::string& commit, const Listing& files) {
  for (const HubFile& file : files) {
    if (!file.path.ends_with(".safetensors.index.json")) continue;
    const auto index =
        nlohmann::json::parse(contents(cache.snapshot(commit) + "/" + file.path), nullptr, false);
    if (!index.is_object() || !index.contains("weight_map")) return true;
    for (const auto& shard : index["weight_map"])
      if (!shard.is_string() || !cache.has(commit, shard.get<std::string>())) return true;
  }
  return false;
}

class Resolver {
 public:
  Resolver(const Settings& settings, const Repo& repo, const Want& want)
      : settings_(settings), repo_(repo), want_(want), cache_(settings.cache, repo) {}

  Resolved run(bool fresh) {
    std::string commit = cache_.commit();
    if (!commit.empty() && (!fresh || !settings_.off.empty())) {
      if (std::optional<Resolved> found = cached(commit)) return *found;
    }
    if (!settings_.off.empty()) fail_off(commit);
    if (commit.empty() || fresh) commit = ask_commit(settings_, repo_);
    Listing listing;
    if (!cache_.read_listing(commit, listing)) listing = ask_listing(settings_, repo_, commit);
    std::string card;
    if (want_.configured && find(listing, "README.md") != nullptr) {
      download(settings_, repo_, commit, {*find(listing, "README.md")});
      card = contents(cache_.snapshot(commit) + "/README.md");
    }
    const Listing taken = select(listing, repo_, want_, card);
    download(settings_, repo_, commit, taken);
    cache_.write_listing(commit, listing);
    cache_.write_commit(commit);
    return resolved(commit, taken);
  }

 private:
  // Returns nothing if a file is missing, or it cannot be known whether one is.
  std::optional<Resolved> cached(const std::string& commit) {
    Listing listing;
    const bool known = cache_.read_listing(commit, listing);
    if (!known) listing = cached_files(cache_, commit);
    if (listing.empty()) return {};
    const std::string card = want_.configured ? contents(cache_.snapshot(commit) + "/README.md") : "";
    if (known) {
      if (want_.configured && card.empty() && find(listing, "README.md") != nullptr) return {};
      const Listing taken = select(listing, repo_, want_, card);
      for (const HubFile& file : taken)
        if (!cache_.has(commit, file.path)) return {};
      return resolved(commit, taken);
    }
    try {
      const Listing taken = select(listing, repo_, want_, card);
      const bool whole =
          repo_.type == Repo::Type::model ? !lacks_shards(cache_, commit, taken) : !settings_.off.empty();
      if (!whole || (!gguf_of(taken) && repo_.type == Repo::Type::model &&
                     find(taken, "config.json") == nullptr && find(taken, "adapter_config.json") == nullptr))
        return {};
      return resolved(commit, taken);
    } catch (const HubError&) {  // the files here do not suffice: the rest may
      return {};
    }
  }

  [[noreturn]] void fail_off(const std::string& commit) const {
    throw HubError(fmt::format("{}: {} in the Hugging Face cache {}, and the hub is not asked ({})",
                               repo_.shown(), commit.empty() ? "it is not" : "some of its files are not",
                               settings_.cache, settings_.off));
  }

  Resolved resolved(const std::string& commit, const Listing& taken) const {
    const std::string folder = cache_.snapshot(commit);
    const HubFile* gguf = gguf_of(taken);
    return {gguf != nullptr && repo_.type == Repo::Type::model ? folder + "/" + gguf->path : folder, commit};
  }

  const Settings& settings_;
  const Repo& repo_;
  const Want& want_;
  Cache cache_;
};

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

Resolved resolve(const Settings& settings, const Repo& repo, const Want& want, bool fresh) {
  if (!is_safe_path(repo.revision))
    throw HubError(fmt::format("{}: '{}' is not a revision", repo.id, repo.revision));
  return Resolver(settings, repo, want).run(fresh);
}

}  // namespace trl::cli::hub
