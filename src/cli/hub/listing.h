// The files of a commit.
#pragma once
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "cli/hub/repo.h"

namespace trl::cli::hub {

struct HubFile {
  std::string path;
  int64_t size = 0;
  std::string blob_id;   // git's SHA-1
  std::string sha256;    // for a file in Git LFS, or empty
  std::string xet_hash;  // its key in huggingface_hub's shared store, or empty
  const std::string& checksum() const { return sha256.empty() ? blob_id : sha256; }
};

using Listing = std::vector<HubFile>;

// Appends the files in one page of the hub's answer. Throws HubError for JSON that is not such a page, and
// for paths that would leave their folder.
void add_page(Listing& listing, const nlohmann::json& page);

// Returns the content of trees/<commit>.json in the cache.
nlohmann::json listing_json(const Listing& listing);
bool parse_listing(const nlohmann::json& json, Listing& listing);  // false: another format

const HubFile* find(const Listing& listing, const std::string& path);

// Chooses the files of a repository to download. Pickles are never chosen: opening one runs the code in it.
struct Want {
  enum class Part { all, text, rows } part = Part::all;  // text: only a model's tokenizer and configuration
  std::string file;                                      // for a model: only this GGUF file, or empty
  bool configured = false;                               // rows: only one configuration
  std::string config;                                    // its name; empty: the default one
  bool parquet = true;                                   // rows: whether Parquet files can be read
};

// Returns the chosen files. card: the text of a dataset's README.md, or empty. Throws HubError, with the
// reason, if no usable file is left.
Listing select(const Listing& listing, const Repo& repo, const Want& want, const std::string& card);

// Returns the GGUF file among the files of a model, or nothing if they are a directory that is opened whole.
const HubFile* gguf_of(const Listing& taken);

// The files that a dataset's card, its README.md, lists: configs in the YAML between the two lines "---".
struct CardFiles {
  bool named = false;  // the card names files
  std::vector<std::string> patterns;
  bool matches(const std::string& path) const;  // globs: * within a name, ** across folders
};

// Returns the files of a configuration; an empty name means the default one. Throws UnfitError if the card
// has configurations and none of that name, or several and no default; id is for messages.
CardFiles files_of_card(const std::string& card, const std::string& config, const std::string& id);

}  // namespace trl::cli::hub
