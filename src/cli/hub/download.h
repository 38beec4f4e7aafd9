// Brings files of a commit into the cache.
#pragma once
#include <string>

#include "cli/hub/environment.h"
#include "cli/hub/listing.h"
#include "cli/hub/repo.h"

namespace trl::cli::hub {

// Several files at once; those that are already there are skipped. Throws HubError; what came until then is
// kept, and resumed.
void download(const Settings& settings, const Repo& repo, const std::string& commit, const Listing& files);

}  // namespace trl::cli::hub
