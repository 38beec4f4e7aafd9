// Downloads files of a commit into the cache.
#pragma once
#include <string>

#include "cli/hub/environment.h"
#include "cli/hub/listing.h"
#include "cli/hub/repo.h"

namespace trl::cli::hub {

// Downloads several files at once; skips files that already exist. Throws HubError; the bytes received until
// then are kept, and resumed.
void download(const Settings& settings, const Repo& repo, const std::string& commit, const Listing& files);

}  // namespace trl::cli::hub
