// Asks the hub about a repository.
#pragma once
#include <string>

#include "cli/hub/environment.h"
#include "cli/hub/listing.h"
#include "cli/hub/repo.h"

namespace trl::cli::hub {

// Returns the commit that the revision currently names. Throws HubError.
std::string ask_commit(const Settings& settings, const Repo& repo);

// Returns all files of a commit.
Listing ask_listing(const Settings& settings, const Repo& repo, const std::string& commit);

}  // namespace trl::cli::hub
