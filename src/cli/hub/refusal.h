// Explains the hub's refusals in words.
#pragma once
#include <string>

#include "cli/hub/repo.h"
#include "cli/hub/request.h"

namespace trl::cli::hub {

// Throws HubError for a reply whose status is an error. file: the requested file, or empty.
[[noreturn]] void refuse(const Settings& settings, const Repo& repo, const std::string& file,
                         const Reply& reply);

}  // namespace trl::cli::hub
