// The JSON schema of configurations: every option is in it, and it says what a configuration takes.
#include <gtest/gtest.h>

#include <regex>

#include "base/error.h"
#include "base/files/files.h"
#include "config/config.h"
#include "config/method.h"
#include "config/option_value.h"
#include "config/schema.h"
#include "config/yaml.h"

namespace trl::config {
namespace {

using base::Json;

bool is_valid(const Json& value, const Json& schema);

bool has_type(const Json& value, const std::string& type) {
  if (type == "null") return value.is_null();
  if (type == "boolean") return value.is_boolean();
  if (type == "string") return value.is_string();
  if (type == "array") return value.is_array();
  if (type == "object") return value.is_object();
  if (type == "number") return value.is_number();
  EXPECT_EQ(type, "integer");
  return value.is_number() && std::trunc(value.get<double>()) == value.get<double>();
}

bool has_types(const Json& value, const Json& types) {
  if (types.is_string()) return has_type(value, types);
  return std::ranges::any_of(types, [&](const Json& type) { return has_type(value, type); });
}

bool has_members(const Json& value, const Json& schema) {
  const Json known = schema.value("properties", Json::object());
  return std::ranges::all_of(value.items(), [&](const auto& member) {
    const auto found = known.find(member.key());
    return is_valid(member.value(), found != known.end() ? *found : schema.at("additionalProperties"));
  });
}

// Checks one keyword of draft 2020-12.
bool fits(const Json& value, const std::string& keyword, const Json& argument, const Json& schema) {
  if (keyword == "type") return has_types(value, argument);
  if (keyword == "enum") return std::ranges::find(argument, value) != argument.end();
  if (keyword == "anyOf")
    return std::ranges::any_of(argument, [&](const Json& form) { return is_valid(value, form); });
  if (keyword == "minimum") return !value.is_number() || value.get<double>() >= argument.get<double>();
  if (keyword == "exclusiveMinimum")
    return !value.is_number() || value.get<double>() > argument.get<double>();
  if (keyword == "maximum") return !value.is_number() || value.get<double>() <= argument.get<double>();
  if (keyword == "exclusiveMaximum")
    return !value.is_number() || value.get<double>() < argument.get<double>();
  if (keyword == "pattern")
    return !value.is_string() ||
           std::regex_search(value.get<std::string>(), std::regex(argument.get<std::string>()));
  if (keyword == "items")
    return !value.is_array() ||
           std::ranges::all_of(value, [&](const Json& item) { return is_valid(item, argument); });
  if (keyword == "minItems") return !value.is_array() || value.size() >= argument.get<size_t>();
  if (keyword == "additionalProperties") return !value.is_object() || has_members(value, schema);
  const bool tells = keyword == "properties" || keyword == "default" || keyword == "description" ||
                     keyword == "title" || keyword == "$schema" || keyword == "$id";
  EXPECT_TRUE(tells) << keyword;
  return tells;
}

bool is_valid(const Json& value, const Json& schema) {
  if (schema.is_boolean()) return schema.get<bool>();
  return std::ranges::all_of(schema.items(), [&](const auto& keyword) {
    return fits(value, keyword.key(), keyword.value(), schema);
  });
}

Json schema_of(std::string_view trainer = {}) { return Json::parse(schema(trainer)); }

std::vector<std::string> all_trainers() {
  std::vector<std::string> names = {""};
  for (const MethodRow& row : trainers()) names.emplace_back(row.name);
  return names;
}

TEST(Schema, HasEachOptionWithAValidDefault) {
  for (const std::string& trainer : all_trainers()) {
    const Json whole = schema_of(trainer);
    EXPECT_EQ(whole.at("$schema"), "https://json-schema.org/draft/2020-12/schema");
    EXPECT_EQ(whole.at("additionalProperties"), false);
    size_t count = 0;
    for (const Option& option : options()) {
      if (!trainer.empty() && !is_of(option, trainer)) continue;
      ++count;
      const auto property = whole.at("properties").find(std::string(option.name));
      ASSERT_NE(property, whole.at("properties").end()) << option.name;
      EXPECT_TRUE(property->at("description").get<std::string>().starts_with(doc_of(option, trainer)));
      EXPECT_EQ(is_valid(nullptr, *property), option.nullable) << trainer << " " << option.name;
      if (const auto value = property->find("default"); value != property->end()) {
        EXPECT_TRUE(is_valid(*value, *property)) << trainer << " " << option.name << " " << *value;
      } else {
        EXPECT_EQ(default_of(option, trainer), "null") << option.name;
      }
    }
    EXPECT_EQ(whole.at("properties").size(), count) << trainer;
  }
}

TEST(Schema, RefusesWhatAConfigurationRefuses) {
  const Json all = schema_of(), dpo = schema_of("dpo"), online = schema_of("online_dpo"),
             sft = schema_of("sft");
  const auto takes = [](const Json& whole, const char* json) { return is_valid(Json::parse(json), whole); };
  EXPECT_TRUE(takes(all, R"({"method": "dpo", "max_steps": 3, "learning_rate": 1e-05})"));
  EXPECT_FALSE(takes(all, R"({"max_stepss": 3})"));
  EXPECT_FALSE(takes(all, R"({"max_steps": "x"})"));
  EXPECT_FALSE(takes(all, R"({"max_steps": 2.5})"));
  EXPECT_FALSE(takes(all, R"({"seed": -1})"));
  EXPECT_FALSE(takes(all, R"({"seed": null})"));
  EXPECT_FALSE(takes(all, R"({"adam_beta1": 1})"));
  EXPECT_FALSE(takes(all, R"({"packing": 3})"));
  EXPECT_TRUE(takes(all, R"({"max_length": null, "pad_to_multiple_of": "auto"})"));
  EXPECT_FALSE(takes(all, R"({"pad_to_multiple_of": "none"})"));
  EXPECT_TRUE(takes(all, R"({"runtime.host_memory_limit": "6GiB", "dataset_cache_limit": 1000})"));
  EXPECT_FALSE(takes(all, R"({"runtime.host_memory_limit": "much"})"));
  EXPECT_TRUE(takes(all, R"({"runtime.host_memory_limit": "1_000MiB"})"));
  EXPECT_EQ(canonical_value(*find_option("runtime.host_memory_limit"), "", "1_000MiB"), "1048576000");
  EXPECT_FALSE(takes(all, R"({"runtime": {"threads": 2}})"));
  EXPECT_TRUE(takes(all, R"({"runtime.threads": 2, "eval_strategy": false, "report_to": ["csv", "html"]})"));
  EXPECT_FALSE(takes(all, R"({"report_to": ["paper"]})"));
  EXPECT_TRUE(takes(all, R"({"lr_scheduler_kwargs": {"num_cycles": 0.5}, "model_init_kwargs": {"a": 1}})"));
  EXPECT_FALSE(takes(all, R"({"lr_scheduler_kwargs": {"cycles": 0.5}})"));

  EXPECT_TRUE(takes(all, R"({"beta": [0.1, 0.2], "loss_type": ["ipo", "sft"]})"));
  EXPECT_TRUE(takes(dpo, R"({"method": "dpo", "beta": 0.2, "loss_type": ["ipo", "sft"]})"));
  EXPECT_FALSE(takes(dpo, R"({"beta": [0.2]})"));
  EXPECT_FALSE(takes(dpo, R"({"beta": 0})"));
  EXPECT_FALSE(takes(dpo, R"({"loss_type": "dapo"})"));
  EXPECT_FALSE(takes(dpo, R"({"method": "sft"})"));
  EXPECT_TRUE(takes(online, R"({"beta": [0.2, 0.1]})"));
  EXPECT_FALSE(takes(sft, R"({"beta": 0.2})"));
  EXPECT_EQ(dpo.at("properties").at("learning_rate").at("default"), 1e-06);
  EXPECT_EQ(dpo.at("properties").at("loss_type").at("default"), Json::parse(R"(["sigmoid"])"));
}

// Keys and values that have other names today are left out.
TEST(Schema, TakesRecipes) {
  const Json whole = schema_of();
  int64_t checked = 0;
  for (const char* name :
       {"tests/config/recipes/handbook_2023_full.yaml", "tests/config/recipes/open_r1.yaml",
        "tests/config/recipes/handbook_2025.yaml", "tests/config/recipes/trl_docs.yaml",
        "examples/recipes/grpo.yaml", "examples/recipes/rloo.yaml", "examples/recipes/distillation.yaml"}) {
    const Json recipe = parse_flow(base::read_file(std::string(TRL_SOURCE_DIR "/") + name), "recipe");
    for (const auto& [key, value] : recipe.items()) {
      const Option* const option = find_option(key);
      ASSERT_NE(option, nullptr) << key;
      const bool old =
          std::ranges::any_of(old_values(), [&, key = key](const OldValue& one) { return one.name == key; });
      if (option->name != key || old) continue;
      EXPECT_TRUE(is_valid(value, whole.at("properties").at(key))) << name << " " << key << ": " << value;
      ++checked;
    }
  }
  EXPECT_GT(checked, 60);
}

}  // namespace
}  // namespace trl::config
