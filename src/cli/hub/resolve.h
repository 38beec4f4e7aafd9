// Finding a repository's files on this machine: in the cache, or downloaded into it.
#pragma once
#include <string>

#include "cli/hub/environment.h"
#include "cli/hub/listing.h"
#include "cli/hub/repo.h"

namespace trl::cli::hub {

// These three functions need the network. A build without libcurl (TRL_HUB=OFF) has them too, but they
// refuse. Returns the commit that the revision currently names. Throws HubError.
std::string ask_commit(const Settings& settings, const Repo& repo);

// Returns all files of a commit.
Listing ask_listing(const Settings& settings, const Repo& repo, const std::string& commit);

// Downloads several files of a commit into the cache at once; skips files that already exist. Throws
// HubError; the bytes received until then are kept, and resumed.
void download(const Settings& settings, const Repo& repo, const std::string& commit, const Listing& files);

// The local cache of hub files, laid out as huggingface_hub lays it out, so that either reads what the other
// wrote:
//   models--owner--name/refs/main                    the commit that a revision stood for
//   models--owner--name/blobs/<checksum>             the bytes; or a link into the shared store blobs/ of the
//                                                    cache, which is read and never written here
//   models--owner--name/snapshots/<commit>/<path>    a relative link to a blob
//   models--owner--name/trees/<commit>.json          which files the commit has
//   .locks/models--owner--name/<checksum>.lock       held with flock while a blob is written
class Cache {
 public:
  Cache(const std::string& root, const Repo& repo);

  std::string commit() const;  // last seen of the revision; empty: not seen
  bool read_listing(const std::string& commit, Listing& listing) const;
  std::string snapshot(const std::string& commit) const;  // the directory
  bool has(const std::string& commit, const std::string& path) const;
  std::string blob(const std::string& checksum) const;
  std::string lock(const std::string& checksum) const;

  // These functions throw HubError if the cache cannot be written.
  void begin() const;  // makes the directories
  void write_commit(const std::string& commit) const;
  void write_listing(const std::string& commit, const Listing& listing) const;
  void link(const std::string& commit, const std::string& path, const std::string& checksum) const;

 private:
  std::string root_, revision_, folder_, repo_folder_;
};

// Resolves the name of a repository to files on this machine.
struct Resolved {
  std::string path;    // a directory of the cache, or a GGUF file in it
  std::string commit;  // commit of the revision
};

// Finds the wanted files of a repository in the cache and downloads those that are missing. fresh: asks the
// hub which commit the revision names now, even if the cache has one. Throws HubError.
Resolved resolve(const Settings& settings, const Repo& repo, const Want& want, bool fresh);

}  // namespace trl::cli::hub
