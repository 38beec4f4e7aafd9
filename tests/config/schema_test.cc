// The JSON schema of configurations: every option is in it, and it says what a configuration takes.
#include <gtest/gtest.h>

#include <regex>

#include "base/error.h"
#include "base/files/files.h"
#include "config/config.h"
#include "config/method.h"
#include "config/table/option_value.h"
#include "config/table/schema.h"
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

// Compares as integers if both are: a double does not tell 2^63 from what is below it.
bool is_above(const Json& value, const Json& bound) {
  if (!value.is_number_unsigned() || !bound.is_number_integer())
    return value.get<double>() > bound.get<double>();
  return bound < 0 || value.get<uint64_t>() > bound.get<uint64_t>();
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
  if (keyword == "maximum") return !value.is_number() || !is_above(value, argument);
  if (keyword == "exclusiveMaximum")
    return !value.is_number() || value.get<double>() < argument.get<double>();
  if (keyword == "pattern")
    return !value.is_string() ||
           std::regex_search(value.get<std::string>(), std::regex(argument.get<std::string>()));
  if (keyword == "items")
    return !value.is_array() ||
           std::ranges::all_of(value, [&](const Json& item) { return is_valid(item, argument); });
  if (keyword == "minItems") return !value.is_array() || value.size() >= argument.get<size_t>();
  if (keyword == "minLength")
    return !value.is_string() || value.get<std::string>().size() >= argument.get<size_t>();
  if (keyword == "minProperties") return !value.is_object() || value.size() >= argument.get<size_t>();
  if (keyword == "required")
    return !value.is_object() || std::ranges::all_of(argument, [&](const Json& name) {
      return value.contains(name.get<std::string>());
    });
  if (keyword == "additionalProperties") return !value.is_object() || has_members(value, schema);
  const bool tells = keyword == "properties" || keyword == "default" || keyword == "description" ||
                     keyword == "deprecated" || keyword == "title" || keyword == "$schema" ||
                     keyword == "$id";
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
      count += 1 + alias_list(option).size();
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

TEST(Schema, HasOtherNamesOfKeys) {
  const Json whole = schema_of();
  for (const Option& option : options()) {
    for (const std::string_view alias : alias_list(option)) {
      const Json& property = whole.at("properties").at(std::string(alias));
      const std::string text = property.at("description");
      EXPECT_NE(text.find(fmt::format(" name of {}: {}", option.name, option.doc)), text.npos) << text;
      EXPECT_FALSE(property.contains("default")) << alias;
      EXPECT_EQ(property.contains("deprecated"), !text.starts_with("Another ")) << alias;
      for (const char* value : {"null", "true", "false", "3", "0.5", "\"x\"", "[\"x\"]", "{}"}) {
        if (!is_valid(Json::parse(value), property)) continue;
        Config config;
        EXPECT_NO_THROW(config.load_text(fmt::format("{{\"{}\": {}}}", alias, value), "text"))
            << alias << ": " << value;
      }
    }
  }
  const Json grpo = schema_of("grpo"), ppo = schema_of("ppo");
  const Json& cap = grpo.at("properties").at("vllm_importance_sampling_cap");
  EXPECT_EQ(cap.at("deprecated"), true);
  EXPECT_TRUE(is_valid(2.5, cap));
  EXPECT_FALSE(is_valid("much", cap));
  EXPECT_FALSE(ppo.at("properties").contains("vllm_importance_sampling_cap"));
  for (const char* name : {"reward_model_path", "sft_model_path"})
    EXPECT_FALSE(ppo.at("properties").at(name).contains("deprecated")) << name;
  const Json& grouped = whole.at("properties").at("group_by_length");
  EXPECT_TRUE(is_valid(true, grouped));
  EXPECT_FALSE(is_valid("sequential", grouped));
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
  EXPECT_TRUE(
      takes(all, R"({"lr_scheduler_kwargs": {"num_cycles": 0.5}, "model_init_kwargs": {"use_cache": 1}})"));
  EXPECT_FALSE(takes(all, R"({"model_init_kwargs": {"a": 1}})"));
  EXPECT_FALSE(takes(all, R"({"lr_scheduler_kwargs": {"cycles": 0.5}})"));
  EXPECT_TRUE(takes(all, R"({"data_seed": 9223372036854775807})"));
  EXPECT_FALSE(takes(all, R"({"data_seed": 9223372036854775808})"));
  EXPECT_FALSE(takes(all, R"({"generate.seed": 9223372036854775808})"));
  EXPECT_FALSE(takes(all, R"({"fp16": true})"));
  EXPECT_TRUE(takes(all, R"({"attn_implementation": "plugin:a.so"})"));
  EXPECT_FALSE(takes(all, R"({"attn_implementation": "quick"})"));
  EXPECT_TRUE(takes(all, R"({"accelerator_config": {"split_batches": false, "even_batches": true}})"));
  EXPECT_FALSE(takes(all, R"({"accelerator_config": {"split_batches": true}})"));

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

// Whether a configuration takes a value beside the schema, as trl_config_get_schema says: a text in place of
// something else, or the reverse; 0 and 1 in place of booleans; a value of an earlier release.
bool is_exempt(const Option& option, const Json& value, const Json& property) {
  if (value.is_string()) return true;
  const auto is_old = [&](const OldValue& old) {
    const std::optional<bool> flag = parse_bool(old.written);
    return old.name == option.name &&
           (old.written == as_text(value) || (flag && flag == parse_bool(as_text(value))));
  };
  if (std::ranges::any_of(old_values(), is_old)) return true;
  const bool scalar = value.is_number() || value.is_boolean();
  if (scalar && is_valid(as_text(value), property)) return true;
  return (value == 0 || value == 1) && (is_valid(value == 1, property) || option.type == OptionType::choice);
}

TEST(Schema, AgreesWithAConfigurationAboutEachKey) {
  const Json whole = schema_of();
  for (const Option& option : options()) {
    const std::string name(option.name);
    const Json& property = whole.at("properties").at(name);
    for (const char* text : {"null",
                             "true",
                             "false",
                             "0",
                             "1",
                             "2",
                             "-1",
                             "0.5",
                             "9007199254740993",
                             "9223372036854775807",
                             "9223372036854775808",
                             "-9223372036854775808",
                             "1e17",
                             "1.5e3",
                             "1e19",
                             "-1e19",
                             "\"\"",
                             "\"x\"",
                             "[]",
                             "[\"x\"]",
                             "[\"a=1\"]",
                             "[1]",
                             "[null]",
                             "[{}]",
                             "[{\"path\": \"x\"}]",
                             "{}",
                             "{\"a\": 1}",
                             "{\"a\": 2}",
                             "{\"datasets\": [{\"id\": \"x\"}]}"}) {
      const Json value = Json::parse(text);
      std::string refusal;
      Config config;
      try {
        config.load_text(fmt::format("{{\"{}\": {}}}", name, text), "text");
      } catch (const Error& error) {
        refusal = error.message();
      }
      const bool valid = is_valid(value, property);
      if (valid) {
        EXPECT_EQ(refusal, "") << text;
      } else if (!is_exempt(option, value, property)) {
        EXPECT_NE(refusal, "") << name << ": " << text << " is not valid by " << property.dump();
      }
    }
  }
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
