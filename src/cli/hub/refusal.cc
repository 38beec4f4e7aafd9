#include "cli/hub/refusal.h"

#include <fmt/format.h>

#include "cli/hub/hub_error.h"

namespace trl::cli::hub {

namespace {

std::string about_token(const Settings& settings) {
  if (settings.token.empty())
    return "for a private one give a token, in HF_TOKEN or as 'hf auth login' stores it";
  return fmt::format("the token in {} must be allowed to read it", settings.token_origin);
}

std::string missing(const Settings& settings, const Repo& repo, long status) {
  const char* const other = repo.type == Repo::Type::model ? "dataset" : "model";
  return fmt::format(
      "the {} is missing or private ({}): check the name, which may also be that of a {}{}; {}",
      repo.type_name(), status, other, repo.by_download ? fmt::format(" (--repo_type {})", other) : "",
      about_token(settings));
}

}  // namespace

void refuse(const Settings& settings, const Repo& repo, const std::string& file, const Reply& reply) {
  const std::string what = file.empty() ? repo.id : repo.id + ": " + file;
  const std::string code = reply.header("x-error-code"), page = settings.endpoint + "/" + repo.path();
  std::string why;
  if (code == "RevisionNotFound") {
    why = fmt::format("there is no revision '{}' ({}); {}/tree/main shows which there are", repo.revision,
                      reply.status, page);
  } else if (code == "EntryNotFound") {
    why = fmt::format("the file is not in the revision '{}' ({})", repo.revision, reply.status);
  } else if (code == "GatedRepo" || (reply.status == 403 && code.empty())) {
    why = fmt::format("access is not granted ({}): its conditions are accepted at {}; {}", reply.status, page,
                      about_token(settings));
  } else if (reply.status == 401 && !settings.token.empty() &&
             reply.header("x-error-message").starts_with("Invalid credentials")) {
    why = fmt::format("the hub does not know the token in {} (401)", settings.token_origin);
  } else if (reply.status == 401 || reply.status == 404) {
    why = missing(settings, repo, reply.status);
  } else if (reply.status == 429) {
    why = fmt::format("the hub refuses further requests (429) and asks to wait {:.0f} s{}",
                      seconds_to_wait(reply, 60),
                      settings.token.empty() ? "; with a token (HF_TOKEN) more are allowed" : "");
  } else if (reply.status >= 500) {
    why = fmt::format("{} has failed ({}): try again later", settings.endpoint, reply.status);
  } else {
    const std::string message = reply.header("x-error-message");
    why = fmt::format("the hub answers {}{}", reply.status, message.empty() ? "" : ": " + message);
  }
  throw HubError(fmt::format("{}: {}", what, why));
}

}  // namespace trl::cli::hub
