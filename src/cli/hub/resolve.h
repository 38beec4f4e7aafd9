// Resolves the name of a repository to files on this machine.
#pragma once
#include <string>

#include "cli/hub/environment.h"
#include "cli/hub/repo.h"
#include "cli/hub/select.h"

namespace trl::cli::hub {

struct Resolved {
  std::string path;    // a directory of the cache, or a GGUF file in it
  std::string commit;  // commit of the revision
};

// Finds the wanted files of a repository in the cache and downloads those that are missing. fresh: asks the
// hub which commit the revision names now, even if the cache has one. Throws HubError.
Resolved resolve(const Settings& settings, const Repo& repo, const Want& want, bool fresh);

}  // namespace trl::cli::hub
