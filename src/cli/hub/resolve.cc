#include "cli/hub/resolve.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>

#include "cli/hub/cache.h"
#include "cli/hub/hub_error.h"
#include "cli/hub/network.h"

namespace trl::cli::hub {

namespace {

namespace fs = std::filesystem;

std::string text_of_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// Lists the files of a snapshot that another program downloaded one by one: no list of them was saved.
Listing cached_files(const Cache& cache, const std::string& commit) {
  Listing files;
  std::error_code error;
  const fs::path folder = cache.snapshot(commit);
  for (auto at = fs::recursive_directory_iterator(folder, error);
       !error && at != fs::recursive_directory_iterator(); at.increment(error)) {
    if (cache.has(commit, at->path().lexically_relative(folder).string()))
      files.push_back({at->path().lexically_relative(folder).string(), 0, "", "", ""});
  }
  std::sort(files.begin(), files.end(), [](const HubFile& a, const HubFile& b) { return a.path < b.path; });
  return files;
}

// Returns whether the index of the weights names a missing shard.
bool lacks_shards(const Cache& cache, const std::string& commit, const Listing& files) {
  for (const HubFile& file : files) {
    if (!file.path.ends_with(".safetensors.index.json")) continue;
    const auto index =
        nlohmann::json::parse(text_of_file(cache.snapshot(commit) + "/" + file.path), nullptr, false);
    if (!index.is_object() || !index.contains("weight_map")) return true;
    for (const auto& shard : index["weight_map"]) {
      if (!shard.is_string() || !cache.has(commit, shard.get<std::string>())) return true;
    }
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
      card = text_of_file(cache_.snapshot(commit) + "/README.md");
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
    const std::string card = want_.configured ? text_of_file(cache_.snapshot(commit) + "/README.md") : "";
    if (known) {
      if (want_.configured && card.empty() && find(listing, "README.md") != nullptr) return {};
      const Listing taken = select(listing, repo_, want_, card);
      for (const HubFile& file : taken) {
        if (!cache_.has(commit, file.path)) return {};
      }
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

Resolved resolve(const Settings& settings, const Repo& repo, const Want& want, bool fresh) {
  if (!is_safe_path(repo.revision))
    throw HubError(fmt::format("{}: '{}' is not a revision", repo.id, repo.revision));
  return Resolver(settings, repo, want).run(fresh);
}

}  // namespace trl::cli::hub
