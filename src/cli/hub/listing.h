// The files of a commit.
#pragma once
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

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

}  // namespace trl::cli::hub
