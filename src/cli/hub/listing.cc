#include "cli/hub/listing.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <fnmatch.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string_view>

#include "cli/hub/environment.h"

namespace trl::cli::hub {

namespace {

using Json = nlohmann::json;

constexpr int kFormat = 1;

std::string text_or_empty(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

// Checks the path and the checksums, which become names of files.
bool is_sound(const HubFile& file) {
  return is_safe_path(file.path) && is_hex(file.blob_id, 40) &&
         (file.sha256.empty() || is_hex(file.sha256, 64)) &&
         (file.xet_hash.empty() || is_hex(file.xet_hash, 64)) && file.size >= 0;
}

bool ends(std::string_view path, std::initializer_list<std::string_view> endings) {
  return std::ranges::any_of(endings, [&](std::string_view ending) { return path.ends_with(ending); });
}

bool is_pickle(std::string_view path) {
  return ends(path, {".bin", ".pt", ".pth", ".pkl", ".pickle", ".ckpt", ".joblib", ".npy", ".npz", ".msgpack",
                     ".h5"});
}

bool is_hidden(std::string_view path) {
  return path.front() == '.' || path.find("/.") != std::string_view::npos;
}

bool is_text(std::string_view path) {
  if (path.starts_with("additional_chat_templates/") && path.ends_with(".jinja")) return true;
  if (path.find('/') != std::string_view::npos) return false;
  return ends(path, {".json", ".txt", ".jinja", ".model", ".md"}) &&
         !path.ends_with(".safetensors.index.json");
}

// Matches model-00001-of-00002.safetensors.
bool is_shard(std::string_view path) {
  return path.starts_with("model-") && path.find("-of-") != std::string_view::npos &&
         path.ends_with(".safetensors");
}

bool is_rows(std::string_view path) {
  for (const std::string_view compressed : {".gz", ".zst"})
    if (path.ends_with(compressed)) path.remove_suffix(compressed.size());
  return ends(path, {".jsonl", ".json", ".ndjson", ".csv", ".tsv", ".txt", ".parquet"});
}

std::string shown_names(const Listing& files) {
  constexpr size_t kMost = 8;
  std::vector<std::string> names;
  for (const HubFile& file : files) names.push_back(file.path);
  const size_t more = names.size() > kMost ? names.size() - kMost : 0;
  names.resize(names.size() - more);
  return fmt::format("{}{}", fmt::join(names, ", "), more > 0 ? fmt::format(" and {} more", more) : "");
}

template <typename Test>
Listing those(const Listing& listing, Test test) {
  Listing found;
  std::ranges::copy_if(listing, std::back_inserter(found),
                       [&](const HubFile& file) { return test(file.path); });
  return found;
}

[[noreturn]] void refuse_part(const Repo& repo, const Want& want, const char* what) {
  throw UnfitError(fmt::format("{}: {}: of a {} {} taken by itself; leave the file out", repo.shown(),
                               want.file, repo.type_name(), what));
}

// Returns the weights that are opened of a model directory: model.safetensors, or its shards and their index.
Listing weights(const Listing& listing, const Repo& repo) {
  const bool single = find(listing, "model.safetensors") != nullptr;
  const bool index = find(listing, "model.safetensors.index.json") != nullptr;
  Listing taken = those(listing, [&](std::string_view path) {
    if (path == "adapter_model.safetensors" || path == "model.safetensors") return true;
    return !single && index && (path == "model.safetensors.index.json" || is_shard(path));
  });
  if (!taken.empty()) return taken;
  taken = those(listing, [](std::string_view path) { return path.ends_with(".gguf"); });
  if (taken.size() == 1) return taken;
  if (!taken.empty())
    throw UnfitError(fmt::format("{}: it has {} GGUF files; name one of them, such as {}/{}: {}", repo.id,
                                 taken.size(), repo.id, taken.front().path, shown_names(taken)));
  const Listing pickles = those(listing, is_pickle);
  if (!pickles.empty())
    throw UnfitError(fmt::format(
        "{}: its weights are pickles ({}), which are never taken: opening one runs the code in it. "
        "safetensors and GGUF are; a pull request of the repository may have them (--{} refs/pr/1)",
        repo.shown(), shown_names(pickles), repo.by_download ? "revision" : "model_revision"));
  throw UnfitError(
      fmt::format("{}: it has no weights: neither model.safetensors nor shards of it, "
                  "adapter_model.safetensors or a GGUF file",
                  repo.shown()));
}

Listing model_files(const Listing& listing, const Repo& repo, const Want& want) {
  if (!want.file.empty() && !want.file.ends_with(".gguf")) refuse_part(repo, want, "only a GGUF file is");
  if (!want.file.empty()) {
    const HubFile* file = find(listing, want.file);
    if (file != nullptr) return {*file};
    throw UnfitError(fmt::format(
        "{}: there is no file {} in it; its GGUF files: {}", repo.shown(), want.file,
        shown_names(those(listing, [](std::string_view path) { return path.ends_with(".gguf"); }))));
  }
  Listing taken = those(listing, [](std::string_view path) { return is_text(path) && !is_hidden(path); });
  if (want.part == Want::Part::text) return taken;
  const Listing heavy = weights(listing, repo);
  if (heavy.front().path.ends_with(".gguf")) return heavy;
  taken.insert(taken.end(), heavy.begin(), heavy.end());
  return taken;
}

Listing dataset_files(const Listing& listing, const Repo& repo, const Want& want, const std::string& card) {
  if (!want.file.empty()) refuse_part(repo, want, "no file is");
  const auto readable = [](std::string_view path) { return is_rows(path) && !is_hidden(path); };
  Listing rows = those(listing, readable);
  if (want.configured) {
    const CardFiles named = files_of_card(card, want.config, repo.id);
    if (named.named) {
      rows = those(rows, [&](const std::string& path) { return named.matches(path); });
    } else if (!want.config.empty()) {
      const Listing below =
          those(rows, [&](const std::string& path) { return path.starts_with(want.config + "/"); });
      if (!below.empty()) rows = below;
    }
  }
  if (rows.empty()) {
    const Listing others =
        those(listing, [](std::string_view path) { return !is_hidden(path) && path != "README.md"; });
    throw UnfitError(
        fmt::format("{}: it has no files of rows that are read (Parquet, JSON Lines, JSON, CSV, text; plain, "
                    ".gz or .zst){}{}",
                    repo.shown(), others.empty() ? "" : "; it has ", shown_names(others)));
  }
  const bool parquet =
      std::ranges::any_of(rows, [](const HubFile& file) { return file.path.ends_with(".parquet"); });
  if (parquet && !want.parquet)
    throw UnfitError(
        fmt::format("{}: its rows are Parquet files, which this build does not read; bash examples/setup.sh "
                    "--parquet brings Arrow and builds with it",
                    repo.shown()));
  if (const HubFile* readme = find(listing, "README.md")) rows.push_back(*readme);
  return rows;
}

std::string header_of(const std::string& card) {
  if (!card.starts_with("---\n") && !card.starts_with("---\r\n")) return "";
  const size_t begin = card.find('\n') + 1;
  const size_t end = card.find("\n---", begin - 1);
  return end == std::string::npos ? "" : card.substr(begin, end + 1 - begin);
}

std::string text_of(const YAML::Node& node) { return node.IsScalar() ? node.Scalar() : ""; }

void add_patterns(const YAML::Node& files, const std::string& folder, std::vector<std::string>& out) {
  if (files.IsScalar()) out.push_back(folder.empty() ? files.Scalar() : folder + "/" + files.Scalar());
  if (files.IsSequence())
    for (const auto& entry : files) add_patterns(entry.IsMap() ? entry["path"] : entry, folder, out);
}

// Matches folder by folder, since fnmatch does not know **.
bool matches_parts(std::string_view path, std::string_view pattern) {
  const size_t slash = pattern.find('/');
  const std::string part(pattern.substr(0, slash));
  if (part == "**" && slash != std::string_view::npos) {
    if (matches_parts(path, pattern.substr(slash + 1))) return true;
    const size_t next = path.find('/');
    return next != std::string_view::npos && matches_parts(path.substr(next + 1), pattern);
  }
  if (part == "**") return true;
  const size_t end = path.find('/');
  if (::fnmatch(part.c_str(), std::string(path.substr(0, end)).c_str(), 0) != 0) return false;
  if (slash == std::string_view::npos || end == std::string_view::npos) return slash == end;
  return matches_parts(path.substr(end + 1), pattern.substr(slash + 1));
}

CardFiles of_config(const YAML::Node& config) {
  CardFiles out;
  const std::string folder = config["data_dir"] ? text_of(config["data_dir"]) : "";
  out.named = true;
  if (config["data_files"])
    add_patterns(config["data_files"], folder, out.patterns);
  else
    out.patterns.push_back(folder.empty() ? "**" : folder + "/**");
  return out;
}

}  // namespace

void add_page(Listing& listing, const Json& page) try {
  for (const Json& entry : page) {
    if (entry.at("type") != "file") continue;
    HubFile file{entry.at("path"), entry.at("size"), entry.at("oid"), "", text_or_empty(entry, "xetHash")};
    if (const auto lfs = entry.find("lfs"); lfs != entry.end() && lfs->is_object()) {
      file.sha256 = lfs->at("oid");
      file.size = lfs->at("size");
    }
    if (!is_sound(file))
      throw HubError("the hub's list of files has an entry that is not accepted: " + entry.dump());
    listing.push_back(std::move(file));
  }
} catch (const Json::exception& error) {
  throw HubError(std::string("the hub's list of files is not understood: ") + error.what());
}

Json listing_json(const Listing& listing) {
  Json files = Json::object();
  for (const HubFile& file : listing) {
    Json& entry = files[file.path] = {{"size", file.size}, {"blob_id", file.blob_id}};
    if (!file.sha256.empty()) {
      entry["lfs_sha256"] = file.sha256;
      entry["lfs_size"] = file.size;
    }
    if (!file.xet_hash.empty()) entry["xet_hash"] = file.xet_hash;
  }
  return {{"format_version", kFormat}, {"files", std::move(files)}};
}

bool parse_listing(const Json& json, Listing& listing) try {
  if (json.at("format_version") != kFormat) return false;
  for (const auto& [path, entry] : json.at("files").items()) {
    HubFile file{path, entry.at("size"), entry.at("blob_id"), text_or_empty(entry, "lfs_sha256"),
                 text_or_empty(entry, "xet_hash")};
    if (!file.sha256.empty()) file.size = entry.at("lfs_size");
    if (!is_sound(file)) return false;
    listing.push_back(std::move(file));
  }
  return true;
} catch (const Json::exception&) {
  return false;
}

const HubFile* find(const Listing& listing, const std::string& path) {
  const auto found = std::ranges::find_if(listing, [&](const HubFile& file) { return file.path == path; });
  return found == listing.end() ? nullptr : &*found;
}

Listing select(const Listing& listing, const Repo& repo, const Want& want, const std::string& card) {
  return repo.type == Repo::Type::model ? model_files(listing, repo, want)
                                        : dataset_files(listing, repo, want, card);
}

const HubFile* gguf_of(const Listing& taken) {
  return taken.size() == 1 && taken.front().path.ends_with(".gguf") ? &taken.front() : nullptr;
}

bool CardFiles::matches(const std::string& path) const {
  return std::ranges::any_of(patterns,
                             [&](const std::string& pattern) { return matches_parts(path, pattern); });
}

CardFiles files_of_card(const std::string& card, const std::string& config, const std::string& id) try {
  const YAML::Node header = YAML::Load(header_of(card));
  const YAML::Node configs = header.IsMap() ? header["configs"] : YAML::Node();
  if (!configs || !configs.IsSequence() || configs.size() == 0) return {};
  std::vector<std::string> names;
  const bool single = config.empty() && configs.size() == 1;
  for (const auto& one : configs) {
    const std::string name = one.IsMap() && one["config_name"] ? text_of(one["config_name"]) : "default";
    const bool is_default =
        name == "default" || (one.IsMap() && one["default"] && one["default"].as<bool>(false));
    if (one.IsMap() && (config.empty() ? single || is_default : name == config)) return of_config(one);
    names.push_back(name);
  }
  if (config.empty())
    throw UnfitError(fmt::format("{}: it has several configurations; give dataset_config: {}", id,
                                 fmt::join(names, ", ")));
  throw UnfitError(
      fmt::format("{}: it has no configuration '{}'; there are: {}", id, config, fmt::join(names, ", ")));
} catch (const YAML::Exception& error) {
  throw UnfitError(fmt::format("{}: the YAML of its README.md is not understood: {}", id, error.what()));
}

}  // namespace trl::cli::hub
