// From the name of a repository to files on this machine.
#pragma once
#include <string>

#include "cli/hub/repo.h"
#include "cli/hub/select.h"
#include "cli/hub/settings.h"

namespace trl::cli::hub {

struct Resolved {
  std::string path;    // a directory of the cache, or a GGUF file in it
  std::string commit;  // the revision's
};

// What is wanted of a repository, from the cache where all of it is there, else with what is missing
// downloaded. fresh: the hub is asked what the revision stands for now, even where the cache knows of a
// commit. Throws HubError.
Resolved resolve(const Settings& settings, const Repo& repo, const Want& want, bool fresh);

}  // namespace trl::cli::hub
