#include "cli/hub/select.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <initializer_list>
#include <string_view>

#include "cli/hub/card.h"
#include "cli/hub/hub_error.h"

namespace trl::cli::hub {

namespace {

bool ends(std::string_view path, std::initializer_list<std::string_view> endings) {
  return std::any_of(endings.begin(), endings.end(),
                     [&](std::string_view ending) { return path.ends_with(ending); });
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
  for (const std::string_view compressed : {".gz", ".zst"}) {
    if (path.ends_with(compressed)) path.remove_suffix(compressed.size());
  }
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
  std::copy_if(listing.begin(), listing.end(), std::back_inserter(found),
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
    throw UnfitError(
        fmt::format("{}: its weights are pickles ({}), which are never taken: opening one runs the code in "
                    "it. safetensors and GGUF are; a pull "
                    "request of the repository may have them (--{} refs/pr/1)",
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
  const bool parquet = std::any_of(rows.begin(), rows.end(),
                                   [](const HubFile& file) { return file.path.ends_with(".parquet"); });
  if (parquet && !want.parquet)
    throw UnfitError(
        fmt::format("{}: its rows are Parquet files, which this build does not read; bash examples/setup.sh "
                    "--parquet brings Arrow and builds with it",
                    repo.shown()));
  if (const HubFile* readme = find(listing, "README.md")) rows.push_back(*readme);
  return rows;
}

}  // namespace

Listing select(const Listing& listing, const Repo& repo, const Want& want, const std::string& card) {
  return repo.type == Repo::Type::model ? model_files(listing, repo, want)
                                        : dataset_files(listing, repo, want, card);
}

const HubFile* gguf_of(const Listing& taken) {
  return taken.size() == 1 && taken.front().path.ends_with(".gguf") ? &taken.front() : nullptr;
}

}  // namespace trl::cli::hub
