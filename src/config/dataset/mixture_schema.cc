// The JSON schema of a mixture of datasets.
#include <utility>

#include "base/json/json.h"
#include "config/dataset/datasets.h"
#include "config/dataset/mixture_entry.h"

namespace trl::config {

base::Json mixture_schema(std::string_view key) {
  base::Json share = base::Json::parse(R"({"type": ["number", "null"], "minimum": 0})");
  if (key != "datasets") share["maximum"] = 1;
  if (key == "dataset_mixer") {
    share["type"] = "number";
    return {{"type", "object"}, {"additionalProperties", share}, {"minProperties", 1}};
  }
  const EntryNames& names = entry_names(key);
  base::Json parts = base::Json::object();
  for (const std::string_view name : names.all)
    parts[std::string(name)] = base::Json::parse(R"({"type": ["string", "null"]})");
  parts[std::string(names.path)] = base::Json::parse(R"({"type": "string", "minLength": 1})");
  parts["columns"] =
      base::Json::parse(R"({"type": ["array", "null"], "items": {"type": "string"}, "minItems": 1})");
  parts[std::string(names.share)] = share;
  if (key == "datasets")
    parts["data_files"] =
        base::Json::parse(R"({"type": ["string", "array", "object", "null"], "minItems": 1})");
  base::Json list =
      base::Json::parse(R"({"type": "array", "items": {"type": "object", "additionalProperties": false}})");
  list["items"]["properties"] = std::move(parts);
  list["items"]["required"] = base::Json::array({names.path});
  if (key == "datasets") return list;
  list["minItems"] = 1;
  base::Json mixture =
      base::Json::parse(R"({"type": "object", "required": ["datasets"], "additionalProperties": false,
    "properties": {"seed": {"type": ["integer", "null"], "minimum": 0},
                   "test_split_size": {"type": ["number", "null"], "exclusiveMinimum": 0}}})");
  mixture["properties"]["seed"]["maximum"] = INT64_MAX;
  mixture["properties"]["datasets"] = std::move(list);
  return mixture;
}

}  // namespace trl::config
