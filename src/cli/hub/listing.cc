#include "cli/hub/listing.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/hub/hub_error.h"
#include "cli/hub/repo.h"

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
  const auto found =
      std::find_if(listing.begin(), listing.end(), [&](const HubFile& file) { return file.path == path; });
  return found == listing.end() ? nullptr : &*found;
}

}  // namespace trl::cli::hub
