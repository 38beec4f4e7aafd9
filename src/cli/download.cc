// trl download: a model or a dataset of the hub into the local Hugging Face cache.
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <CLI/CLI.hpp>

#include "cli/commands.h"
#include "cli/handles.h"
#include "cli/hub/resolve.h"
#include "cli/output.h"
#include "cli/signals.h"

namespace trl::cli {

int download(const Words& words) {
  CLI::App app(
      "Download a model or a dataset of the hub into the local Hugging Face cache, and print where it is.",
      "trl download");
  std::string name, revision = "main", type = "model", hub;
  bool help = false;
  app.set_help_flag();
  app.add_flag("--help,-h", help, "Show this and quit");
  app.add_option("name", name, "owner/name; of a model with several GGUF files owner/name/file.gguf")
      ->type_name("");
  app.add_option("--revision", revision, "A branch, a tag or a commit [main]")->type_name("TEXT");
  app.add_option("--repo_type,--repo-type", type, "model or dataset [model]")->type_name("TEXT");
  app.add_option("--hub", hub, "off: no network; what the cache holds is looked up alone")
      ->type_name("on|off");
  try {
    app.parse(Words(words.rbegin(), words.rend()));
  } catch (const CLI::ParseError& error) {
    throw Failure(kUsage, error.what());
  }
  if (help) return print(app.help()), 0;
  hub::Repo repo;
  hub::Want want;
  if (type != "model" && type != "dataset")
    throw Failure(kUsage, fmt::format("--repo_type: '{}' is not accepted; give model or dataset", type));
  if (type == "dataset") repo.type = hub::Repo::Type::dataset;
  if (type == "dataset" || !hub::split_file(name, repo.id, want.file)) repo.id = name;
  if (!hub::is_repo_id(repo.id))
    throw Failure(kUsage, name.empty() ? "a name is needed: trl download owner/name"
                                       : fmt::format("'{}' is not a name of the hub; give owner/name", name));
  repo.revision = revision;
  const Interrupt interrupt("stopped: what was downloaded is kept, and the same command resumes");
  print(hub::resolve(hub::settings(hub), repo, want, true).path + "\n");
  return 0;
}

}  // namespace trl::cli
