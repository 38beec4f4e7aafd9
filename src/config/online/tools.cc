// Tools that completions may call, and the environments that they belong to.
#include "base/error.h"
#include "base/json/json.h"
#include "config/online/parts.h"
#include "config/table/option_value.h"

namespace trl::config {

namespace {

// Checks that each schema names a function; accepts the function alone, too, as transformers does.
base::Json checked_schemas(std::string_view key, const base::Json& schemas) {
  if (!schemas.is_array()) fail_key(key, "{}: {} is not a list of JSON schemas", key, shown(schemas.dump()));
  for (const base::Json& schema : schemas) {
    const bool wrapped = schema.is_object() && schema.contains("function");
    const base::Json& function = wrapped ? schema["function"] : schema;
    if (!function.is_object() || !function.contains("name") || !function["name"].is_string()) {
      fail_key(key,
               "{}: {} has no name: give {{type: function, function: {{name: ..., description: ..., "
               "parameters: ...}}}}",
               key, shown(schema.dump()));
    }
  }
  return schemas;
}

}  // namespace

void read_online_tools(const Config& config, OnlineArguments& out) {
  constexpr const char *kTools = "tools", *kEnvironments = "environments";
  if (!config.has(kTools)) return;
  out.max_tool_calling_iterations = config.get_optional_int("max_tool_calling_iterations");
  out.host_parses_calls = config.get("tool_call_parser") == "host";
  const auto tools = config.get_text(kTools), environments = config.get_text(kEnvironments);
  const base::Json own =
      checked_schemas(kTools, tools ? base::parse_json(*tools, kTools) : base::Json::array());
  base::Json all = base::Json::object();
  if (environments) {
    const base::Json given = base::parse_json(*environments, kEnvironments);
    for (const auto& [name, schemas] : given.items()) {
      all[name] = own;
      for (const base::Json& schema : checked_schemas(kEnvironments, schemas)) all[name].push_back(schema);
    }
    if (all.empty()) fail_key(kEnvironments, "environments: there is none: name one, or leave the key out");
  } else if (!own.empty()) {
    all[""] = own;
  }
  out.environments = environments.has_value();
  if (!all.empty()) out.tools = all.dump();
  if (!all.empty() && config.has("resample_zero_std") && config.get_bool("resample_zero_std"))
    fail_key("resample_zero_std",
             "resample_zero_std: true is refused with {}, whose calls belong to the rows of a generation",
             environments ? kEnvironments : kTools);
}

}  // namespace trl::config
