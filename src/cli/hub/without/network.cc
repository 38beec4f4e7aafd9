// Replaces the functions that need libcurl if the command is built without it (TRL_HUB=OFF).
#include "cli/hub/resolve.h"

#include <fmt/format.h>

namespace trl::cli::hub {

namespace {

[[noreturn]] void refuse_network(const Settings& settings, const Repo& repo) {
  throw HubError(
      fmt::format("{}: not all of it is in the Hugging Face cache {}, and this build downloads nothing: it "
                  "was made without libcurl (TRL_HUB=OFF)",
                  repo.shown(), settings.cache));
}

}  // namespace

std::string ask_commit(const Settings& settings, const Repo& repo) { refuse_network(settings, repo); }

Listing ask_listing(const Settings& settings, const Repo& repo, const std::string&) {
  refuse_network(settings, repo);
}

void download(const Settings& settings, const Repo& repo, const std::string&, const Listing& files) {
  if (!files.empty()) refuse_network(settings, repo);
}

}  // namespace trl::cli::hub
