// trl download: a model or a dataset of the hub into the local Hugging Face cache.
#include <fmt/format.h>

#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/handles.h"
#include "cli/hub/repo.h"
#include "cli/hub/resolve.h"
#include "cli/open_runtime.h"
#include "cli/terminal.h"

namespace trl::cli {

namespace {

// Refuses a flag and an address that contradict each other.
void need_same(const char* flag, const std::optional<std::string>& given, bool in_address,
               const std::string& has) {
  if (given && in_address && *given != has)
    throw Failure(kUsage,
                  fmt::format("--{} {}: the address says {}; leave one of them out", flag, *given, has));
}

hub::Named what(const std::string& name, const std::optional<std::string>& revision,
                const std::optional<std::string>& type, const hub::Settings& settings) {
  if (type && *type != "model" && *type != "dataset")
    throw Failure(kUsage, fmt::format("--repo_type: '{}' is not accepted; give model or dataset", *type));
  if (name.empty()) throw Failure(kUsage, "a name is needed: trl download owner/name");
  const auto asked = type == "dataset" ? hub::Repo::Type::dataset : hub::Repo::Type::model;
  std::optional<hub::Named> named = hub::named(name, asked, settings.endpoint);
  if (!named)
    throw Failure(
        kUsage,
        fmt::format(
            "'{}' is not a name of the hub; give owner/name, or the address of a model or a dataset there",
            name));
  need_same("repo_type", type, named->has_type, named->repo.type_name());
  need_same("revision", revision, named->has_revision, named->repo.revision);
  if (revision) named->repo.revision = *revision;
  named->repo.by_download = true;
  return *named;
}

}  // namespace

int download(const Words& words) {
  Config config;
  std::string name, hub_value;
  std::optional<std::string> revision, type;
  CommandLine line{"download",
                   "Download a model or a dataset of the hub into the local Hugging Face cache, and print "
                   "where it is. NAME is owner/name, of a model with several GGUF files "
                   "owner/name/file.gguf, or the address of its page.",
                   "",
                   {},
                   {},
                   {{"revision", "A branch, a tag or a commit [main]", &revision},
                    {"repo_type", "model or dataset [model]", &type}}};
  line.takes_config = false;
  line.word = &name;
  line.hub = &hub_value;
  if (parse(line, words, config)) return 0;
  const hub::Settings settings = hub::settings(hub_value);
  const hub::Named named = what(name, revision, type, settings);
  hub::Want want;
  want.file = named.file;
  const Interrupt interrupt("stopped: what was downloaded is kept, and the same command resumes");
  print(hub::resolve(settings, named.repo, want, true).path + "\n");
  return 0;
}

}  // namespace trl::cli
