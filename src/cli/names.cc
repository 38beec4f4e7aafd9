#include "cli/arguments.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "cli/hub/environment.h"
#include "cli/hub/repo.h"
#include "cli/hub/resolve.h"
#include "cli/open_runtime.h"

namespace trl::cli {

namespace {

using hub::Repo;
using hub::Want;
using Json = nlohmann::json;

bool is_local(const std::string& path) {
  std::error_code error;
  return std::filesystem::exists(path, error);
}

// Returns the adapter's base; empty: the directory is not only an adapter's, or does not name it.
std::string adapter_base(const std::string& directory) {
  if (!is_local(directory + "/adapter_config.json") || is_local(directory + "/config.json")) return "";
  std::ifstream in(directory + "/adapter_config.json");
  const Json json = Json::parse(in, nullptr, false);
  const auto base = json.is_object() ? json.find("base_model_name_or_path") : json.end();
  return json.is_object() && base != json.end() && base->is_string() ? base->get<std::string>() : "";
}

class Names {
 public:
  Names(Config& config, const std::string& hub) : config_(config), hub_(hub) {}

  void model(const char* key, const char* revision_key, Want::Part part) {
    const std::string name = get(config_, key);
    if (is_local(name)) return;
    const std::optional<hub::Named> named = hub::named(name, Repo::Type::model, endpoint(name));
    if (!named || named->repo.type != Repo::Type::model) return;
    Repo repo = named->repo;
    Want want;
    want.part = part;
    want.file = named->file;
    const std::string revision =
        revision_key != nullptr && !named->has_revision ? get(config_, revision_key) : "";
    if (!revision.empty()) repo.revision = revision;
    const std::string directory = resolved(key, name, repo, want);
    unset(config_, key);  // it may have been given by another name
    set(config_, key, directory);
    if (!revision.empty() && revision != "main") revised_.push_back(revision_key);
  }

  // Resolves the model that an adapter's directory names, which may be a name of the hub too. opened: the
  // adapter is opened with its model, and not converted without it.
  void model_of_adapter(const char* key, bool opened) {
    const std::string adapter = get(config_, key), base = adapter_base(adapter);
    Repo repo{Repo::Type::model, base};
    if (base.empty() || is_local(base) || !hub::is_repo_id(base)) return;
    if (!get(config_, "convert.base").empty()) return;
    set(config_, opened ? key : "convert.base", resolved(key, base, repo, {}));
    if (opened) set(config_, "adapter_name_or_path", adapter);
  }

  void dataset(const char* key) {
    if (const std::string name = get(config_, key); is_name(name))
      set(config_, key, dataset_path(key, name, get(config_, "dataset_config")));
  }

  // Resolves lists of datasets: each names its own.
  void mixture(const char* key) {
    const std::string text = get(config_, key);
    Json value = Json::parse(text, nullptr, false);
    if (value.is_discarded() || !replace(key, value)) return;
    set(config_, key, value.dump());
  }

  void finish() {
    // Resets the revision, which is already applied: the library only knows local files.
    for (const char* key : revised_) set(config_, key, "main");
  }

 private:
  // Returns the hub's endpoint, with which only an address is compared; empty: the name is not an address.
  std::string endpoint(const std::string& name) const {
    return hub::is_address(name) ? hub::settings(hub_).endpoint : std::string();
  }
  std::optional<hub::Named> named_dataset(const std::string& name) const {
    if (is_local(name) || name == "json" || name == "csv" || name == "text" || name == "parquet") return {};
    return hub::named(name, Repo::Type::dataset, endpoint(name));
  }
  bool is_name(const std::string& name) const { return named_dataset(name).has_value(); }

  std::string dataset_path(const char* key, const std::string& name, const std::string& configuration) {
    const hub::Named named = named_dataset(name).value();
    Repo repo = named.repo;
    const std::string revision = named.has_revision ? "" : get(config_, "dataset_revision");
    if (!revision.empty()) repo.revision = revision;
    if (!revision.empty() && revision != "main") revised_.push_back("dataset_revision");
    Want want;
    want.part = Want::Part::rows;
    want.file = named.file;
    want.configured = true;
    want.parquet = trl_has_feature("parquet") != 0;
    want.config = configuration;
    return resolved(key, name, repo, want);
  }

  std::string resolved(const char* key, const std::string& name, const Repo& repo, const Want& want) {
    hub::Settings settings = hub::settings(hub_);
    settings.why = fmt::format("{}: there is no file or directory {}; ", key, name);
    try {
      const hub::Resolved found = hub::resolve(settings, repo, want, false);
      spdlog::info("{}: {} is {}", key, repo.shown(), found.path);
      return found.path;
    } catch (const hub::UnfitError& error) {
      throw hub::HubError(fmt::format("{}: {}", key, error.what()));
    } catch (const hub::HubError& error) {
      throw hub::HubError(fmt::format("{}on the hub: {}", settings.why, error.what()));
    }
  }

  // Replaces names in datasets: [{path, name}], {datasets: [{id, config}]} or {name: share}.
  bool replace(const char* key, Json& value) {
    bool changed = false;
    if (value.is_object() && value.contains("datasets")) return replace(key, value["datasets"]);
    if (value.is_array()) {
      for (Json& entry : value) {
        for (const char* path : {"path", "id"}) {
          if (!entry.is_object() || !entry.contains(path) || !entry[path].is_string() ||
              !is_name(entry[path]))
            continue;
          std::string configuration;
          for (const char* name : {"name", "config"})
            if (entry.contains(name) && entry[name].is_string()) configuration = entry[name];
          entry[path] = dataset_path(key, entry[path], configuration);
          changed = true;
        }
      }
      return changed;
    }
    if (!value.is_object()) return false;
    Json renamed = Json::object();
    for (const auto& [name, share] : value.items()) {
      changed = changed || is_name(name);
      renamed[is_name(name) ? dataset_path(key, name, "") : name] = share;
    }
    value = std::move(renamed);
    return changed;
  }

  Config& config_;
  const std::string& hub_;
  std::vector<const char*> revised_;
};

}  // namespace

void resolve_names(Config& config, const std::string& hub, Opens opens) {
  if (!hub.empty() && hub != "on" && hub != "off")
    throw Failure(kUsage, fmt::format("--hub: '{}' is not accepted; give on or off", hub));
  const Interrupt interrupt("stopped: what was downloaded is kept, and the same command resumes");
  Names names(config, hub);
  const Want::Part part = opens != Opens::tokenizers ? Want::Part::all : Want::Part::text;
  names.model("model_name_or_path", "model_revision", part);
  if (opens != Opens::tokenizers) {
    names.model_of_adapter("model_name_or_path",
                           opens == Opens::models || get(config, "save.kind") == "merged");
  }
  names.model("ref_model_name_or_path", "model_revision", part);
  names.model("teacher_model_name_or_path", "teacher_model_revision", part);
  for (const char* key : {"reward_model_name_or_path", "value_model_name_or_path"})
    names.model(key, nullptr, part);
  names.model("adapter_name_or_path", nullptr, part);
  names.model("chat_template_path", nullptr, Want::Part::text);
  names.dataset("dataset_name");
  names.dataset("eval_dataset_name");
  for (const char* key : {"datasets", "dataset_mixture", "dataset_mixer"}) names.mixture(key);
  names.finish();
}

}  // namespace trl::cli
