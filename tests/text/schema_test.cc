// JSON schemas as constraints: what is written under them, and what is refused by its name and place.
#include <gtest/gtest.h>

#include "base/error.h"
#include "text/constraint/lazy_dfa.h"
#include "text/constraint/schema.h"

namespace trl::text {
namespace {

constexpr const char* kSchemaKey = "generate.json_schema";

LazyDfa schema_dfa(const base::Json& schema) {
  return LazyDfa(Automaton(parse_schema(schema, kSchemaKey), kSchemaKey));
}

bool is_written(LazyDfa& dfa, std::string_view text) {
  uint32_t state = dfa.start(false)->number;
  for (const char byte : text) {
    state = dfa.next(state, static_cast<uint8_t>(byte));
    if (state == LazyDfa::kDead) return false;
  }
  return dfa.at(state)->matches;
}

bool valid(const char* schema, std::string_view text) {
  LazyDfa dfa = schema_dfa(base::Json::parse(schema));
  return is_written(dfa, text);
}

std::string schema_refusal(const base::Json& schema) {
  try {
    schema_dfa(schema);
  } catch (const Error& error) {
    EXPECT_EQ(error.key(), kSchemaKey);
    return error.message();
  }
  return "";
}

TEST(Schema, ShapesAreKept) {
  constexpr const char* kPerson =
      R"({"type": "object", "properties": {"name": {"type": "string", "minLength": 1, "maxLength": 5},
          "age": {"type": "integer"}, "tags": {"type": "array", "items": {"enum": ["a", 1, null]}, "maxItems": 2}},
          "required": ["age"], "title": "P"})";
  EXPECT_TRUE(valid(kPerson, R"({"name": "Ada", "age": 36})"));
  EXPECT_TRUE(valid(kPerson, R"({"age":-7,"tags":["a", 1]})"));
  EXPECT_TRUE(valid(kPerson, R"({"name":"\n\"é","age":0,"tags":[]})"));
  EXPECT_FALSE(valid(kPerson, R"({"name": "Ada"})"));
  EXPECT_FALSE(valid(kPerson, R"({"name": "", "age": 1})"));
  EXPECT_FALSE(valid(kPerson, R"({"name": "abcdef", "age": 1})"));
  EXPECT_FALSE(valid(kPerson, R"({"age": 01})"));
  EXPECT_FALSE(valid(kPerson, R"({"age": 1, "name": "A"})"));
  EXPECT_FALSE(valid(kPerson, R"({"age": 1, "tags": ["a", "a", "a"]})"));
  constexpr const char* kOptional =
      R"({"properties": {"a": {"const": 1}, "b": {"type": ["null", "boolean"]}}})";
  for (const char* const text : {"{}", R"({"a": 1})", R"({"b":null})", R"({"a":1,"b":true})"})
    EXPECT_TRUE(valid(kOptional, text)) << text;
  EXPECT_FALSE(valid(kOptional, R"({"a":1,})"));
  EXPECT_TRUE(valid(R"({"$ref": "#/$defs/n", "$defs": {"n": {"type": "number"}}})", "-1.5e+3"));
  EXPECT_TRUE(
      valid(R"({"anyOf": [{"type": "string", "format": "date"}, {"type": "null"}]})", R"("2024-02-29")"));
  EXPECT_FALSE(valid(R"({"type": "string", "format": "date"})", R"("2024-13-01")"));
  EXPECT_TRUE(valid(R"({"type": "string", "pattern": "b"})", R"("a\"bc")"));
  EXPECT_FALSE(valid(R"({"type": "string", "pattern": "^b"})", R"("ab")"));
  EXPECT_TRUE(valid(R"({"type": "string", "pattern": "^a[^b]$"})", R"("a\\")"));
  EXPECT_TRUE(valid(R"({"type": "object"})", R"({"x": [1, {"y": "z"}], "w": null})"));
  EXPECT_TRUE(
      valid(R"({"type": "array", "prefixItems": [{"type": "integer"}, {"type": "boolean"}]})", "[3, true]"));
  EXPECT_TRUE(valid(R"({"additionalProperties": {"type": "integer"}})", R"({"x": 1, "y": 2})"));
}

TEST(Schema, WhatIsNotKeptIsRefusedByName) {
  const std::pair<const char*, const char*> rows[] = {
      {R"({"type": "integer", "multipleOf": 3})",
       "at #: 'multipleOf' is not supported; supported are type, enum"},
      {R"({"properties": {"a": {"not": {}}}})", "at #/properties/a: 'not' is not supported"},
      {R"({"uniqueItems": true})", "'uniqueItems' is not supported"},
      {R"({"$ref": "#/x"})", "$ref: #/x is not in the schema"},
      {R"({"$ref": "http://x"})", "only places in the schema itself"},
      {R"({"$ref": "#"})", "no text matches"},
      {R"({"allOf": []})", "at #/allOf: a list of schemas is needed"},
      {R"({"allOf": [{"pattern": "a"}, {"pattern": "b"}]})",
       "at #/allOf/1: 'pattern' is given here and beside it"},
      {R"({"allOf": [{"type": "string"}, {"type": "null"}]})", "'type' is given here and beside it"},
      {R"({"allOf": [{"properties": {"a": {}}, "additionalProperties": false}, {"properties": {"b": {}}}]})",
       "'additionalProperties' is given here and beside it"},
      {R"({"type": "string", "format": "iri"})", "supported are date, time"},
      {R"j({"type": "string", "pattern": "(?=a)"})j", "at #/pattern: character 1"},
      {R"({"type": "string", "pattern": "a", "minLength": 2})", "not supported together"},
      {R"({"type": "text"})", "at #/type: 'text' is not a type"},
      {R"({"type": "array", "minItems": 3, "maxItems": 2})", "minItems 3 is above maxItems 2"},
      {R"({"type": "array", "minItems": -1})", "-1 is not accepted; give an integer from 0 to 10000"},
      {R"({"type": "array", "items": false, "minItems": 1})", "no text matches"},
      {R"({"properties": {"a": {}}, "required": ["b"], "additionalProperties": false})",
       "'b' is not among the properties"},
      {R"({"type": "object", "minProperties": 2})", "at #/minProperties: above 1"},
      {R"({"properties": {"a": {}}, "minProperties": 1})", "up to the number of those that are required"},
      {R"({"properties": {"a": {}, "b": {}}, "maxProperties": 1})", "from the number of all of them on"},
      {R"({"additionalProperties": false, "minProperties": 1})", "no text matches"},
      {R"({"patternProperties": {"a": {}, "b": {}}})", "at #/patternProperties: one pattern is supported"},
      {R"({"properties": {"a": {}}, "patternProperties": {"b": {}}})", "beside properties or required"},
      {R"({"enum": []})", "a list of values is needed"},
      {R"({"enum": [1, null], "type": "string"})", "at #/enum: no value is of the type"},
      {R"({"const": 1, "type": "string"})", "at #/const: no value is of the type"},
      {R"({"enum": [1], "minLength": 2})", "'minLength' beside 'enum'"},
      {R"({"oneOf": [{"type": "integer"}, {"type": "number"}]})", "a value of 0 may be one of 1, too"},
      {R"({"oneOf": [{"properties": {"a": {"type": "integer"}}}, {"required": ["a"]}]})", "may be one of"},
      {R"({"minimum": 3, "maximum": 2})", "no number is within minimum 3, maximum 2"},
      {R"({"type": "integer", "exclusiveMinimum": 2, "exclusiveMaximum": 3})",
       "no integer is within exclusiveMinimum 2, exclusiveMaximum 3"},
      {R"({"exclusiveMinimum": true})", "true needs minimum"},
      {R"({"minimum": "1"})", "at #/minimum: a number is needed"},
      {R"({"minimum": 1e-9})", "without an exponent"},
      {R"(false)", "no text matches"},
      {R"(3)", "a schema is an object, true or false"},
  };
  for (const auto& [schema, text] : rows) {
    const std::string message = schema_refusal(base::Json::parse(schema));
    EXPECT_NE(message.find(text), std::string::npos) << schema << ": " << message;
  }
}

// Each row: a schema, texts that are written, and texts that are not.
TEST(Schema, KeywordsAreKept) {
  struct Row {
    const char* schema;
    std::vector<const char*> good, bad;
  };
  const Row rows[] = {
      {R"({"type": "integer", "minimum": 3, "maximum": 120})",
       {"3", "9", "10", "99", "100", "120"},
       {"2", "121", "-3", "03", "3.0", "1000"}},
      {R"({"type": "integer", "exclusiveMinimum": -20, "maximum": -3})",
       {"-19", "-3", "-10"},
       {"-20", "-2", "0", "3", "-100"}},
      {R"({"type": "integer", "minimum": -2, "exclusiveMaximum": 0})", {"-1", "-2"}, {"0", "-0", "1", "-3"}},
      {R"({"type": "integer", "minimum": 0.5})", {"1", "10", "99999999999999999999"}, {"0", "-1"}},
      {R"({"type": "integer", "minimum": -9223372036854775808, "maximum": 9223372036854775807})",
       {"9223372036854775807", "-9223372036854775808", "0"},
       {"9223372036854775808", "-9223372036854775809"}},
      {R"({"type": "number", "minimum": 0, "maximum": 1})",
       {"0", "0.0", "0.73", "1", "1.00"},
       {"1.01", "-0.1", "2", "1.", "1e0"}},
      {R"({"minimum": 2.5, "exclusiveMaximum": 10.25})",
       {"2.5", "2.50", "3", "9.99", "10", "10.2", "10.2499"},
       {"2.4", "2", "10.25", "10.250", "11"}},
      {R"({"type": "number", "exclusiveMinimum": 0})", {"0.001", "1", "12.5"}, {"0", "0.00", "-1"}},
      {R"({"type": "number", "minimum": 5, "exclusiveMinimum": true})", {"5.01", "6"}, {"5", "5.0", "4"}},
      {R"({"minimum": 1, "exclusiveMinimum": 3, "maximum": 3.25})",
       {"3.1", "3.25"},
       {"3", "3.0", "3.26", "2"}},
      {R"({"type": ["integer", "string"], "minimum": 7, "maxLength": 1})", {"7", "\"a\""}, {"6", "\"ab\""}},
      {R"({"enum": ["a", 1, 2.5, null], "type": ["string", "integer"]})", {"\"a\"", "1"}, {"2.5", "null"}},
      {R"({"allOf": [{"properties": {"a": {"type": "null"}}, "required": ["a"]}, {"properties": {"b": {"const": 1}}}]})",
       {R"({"a": null})", R"({"a":null,"b":1})"},
       {"{}", R"({"b":1})"}},
      {R"({"$ref": "#/$defs/x", "minimum": 3, "$defs": {"x": {"type": "integer", "maximum": 4}}})",
       {"3", "4"},
       {"2", "5"}},
      {R"({"type": "object", "properties": {"a": {"type": "null"}}, "anyOf": [{"required": ["a"]}, {"required": ["b"]}]})",
       {R"({"a":null})", R"({"b":1})", R"({"a":null, "b":[]})"},
       {"{}"}},
      {R"({"oneOf": [{"type": "string", "maxLength": 1}, {"type": "null"}]})", {"\"a\"", "null"}, {"1"}},
      {R"({"oneOf": [{"properties": {"k": {"const": "x"}}, "required": ["k"]}, {"properties": {"k": {"enum": ["y", "z"]}}, "required": ["k"]}]})",
       {R"({"k":"x"})", R"({"k":"z"})"},
       {"{}", R"({"k":"w"})"}},
      {R"({"oneOf": [{"$ref": "#/$defs/c"}, {"$ref": "#/$defs/d"}], "discriminator": {"propertyName": "k"},
           "$defs": {"c": {"type": "object", "properties": {"k": {"const": "c", "default": "c"}, "n": {"const": 1}}},
                     "d": {"type": "object", "properties": {"k": {"const": "d"}, "n": {"const": 2}}}}})",
       {R"({"k":"c"})", R"({"k":"d","n":2})"},
       {"{}", R"({"n":1})", R"({"k":"d","n":1})"}},
      {R"({"oneOf": [{"properties": {"a": {}}, "required": ["a"]}, {"properties": {"b": {}}, "required": ["b"]}]})",
       {R"({"a":1})", R"({"b":1})"},
       {R"({"a":1,"b":1})"}},
      {R"({"properties": {"ab": {"const": 1}, "ac": {"const": 2}}, "required": ["ac"], "additionalProperties": {"type": "boolean"}})",
       {R"({"ac":2})", R"({"ab":1, "ac":2, "x":true,"a":false})", R"({"ac":2,"abc":true,"":true})"},
       {R"({"ac":2,"ab":true})", R"({"x":true})", R"({"ac":2,"x":1})"}},
      {R"({"properties": {"a": {"const": 1}}, "additionalProperties": true})",
       {"{}", R"({"a":1})", R"({"b":[]})", R"({"a":1,"b":{}})"},
       {R"({"a":2})", R"({"b":1,"a":1})"}},
      {R"({"required": ["n"], "properties": {"a": {"const": 1}}})",
       {R"({"n":[1]})", R"({"a":1,"n":0})"},
       {R"({"a":1})"}},
      {R"({"properties": {"a": false, "b": {"const": 1}}})", {"{}", R"({"b":1})"}, {R"({"a":1})"}},
      {R"({"patternProperties": {"^x": {"type": "null"}}, "maxProperties": 2})",
       {"{}", R"({"x1":null,"x":null})"},
       {R"({"y":null})", R"({"x":1})", R"({"x":null,"x1":null,"x2":null})"}},
      {R"({"propertyNames": {"maxLength": 2}, "additionalProperties": {"type": "null"}, "minProperties": 1})",
       {R"({"ab":null})"},
       {"{}", R"({"abc":null})"}},
      {R"({"items": [{"type": "null"}, {"const": 1}], "additionalItems": false})",
       {"[null, 1]"},
       {"[null]", "[null,1,1]"}},
      {R"({"type": "array", "items": {"type": "null"}, "minItems": 2, "maxItems": 4})",
       {"[null,null]", "[null, null, null,null]"},
       {"[]", "[null]", "[null,null,null,null,null]"}},
      {R"({"type": "array", "items": {"type": "null"}, "minItems": 3})",
       {"[null,null,null]", "[null,null,null,null]"},
       {"[null,null]"}},
      {R"({"type": "string", "minLength": 2, "maxLength": 2})",
       {"\"😀é\"", R"("\n\"")"},
       {"\"a\"", "\"abc\"", "\"\\u00e9a\""}},
      {R"({"type": "string", "format": "date"})",
       {"\"2024-02-29\"", "\"1999-12-31\"", "\"2000-02-29\""},
       {"\"2023-02-29\"", "\"1900-02-29\"", "\"2024-04-31\"", "\"2024-00-10\"", "\"0000-01-01\""}},
      {R"({"type": "string", "pattern": "(^a|^b)c"})", {"\"acx\""}, {"\"xac\""}},
      {R"({"$ref": "#/%24defs/a~1b%20c", "$defs": {"a/b c": {"const": 1}}})", {"1"}, {"2"}},
      {R"({"properties": {"größe": {"const": "ü\n"}}})",
       {R"({"größe":"ü\n"})"},
       {R"({"gr\u00f6\u00dfe":1})"}},
      {R"({"uniqueItems": false, "contentEncoding": "x", "$anchor": "a", "type": "null"})", {"null"}, {"1"}},
  };
  for (const Row& row : rows) {
    LazyDfa dfa = schema_dfa(base::Json::parse(row.schema));
    for (const char* const text : row.good) EXPECT_TRUE(is_written(dfa, text)) << row.schema << " " << text;
    for (const char* const text : row.bad) EXPECT_FALSE(is_written(dfa, text)) << row.schema << " " << text;
  }
}

// A list of lists, a tree and a union that hold themselves are written some levels deep.
TEST(Schema, ThoseThatHoldThemselvesAreFollowedForSomeLevels) {
  constexpr const char* kNode =
      R"({"$ref": "#/$defs/node", "$defs": {"node": {"type": "object", "properties": {"v": {"type": "integer"},
          "next": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]}}, "required": ["v", "next"]}}})";
  EXPECT_TRUE(valid(kNode, R"({"v":1,"next":null})"));
  EXPECT_TRUE(valid(kNode, R"({"v":1,"next":{"v":2,"next":{"v":3,"next":null}}})"));
  std::string deep = "null";
  for (int i = 0; i < 40; ++i) deep = R"({"v":1,"next":)" + deep + "}";
  EXPECT_FALSE(valid(kNode, deep));
  constexpr const char* kTree =
      R"({"type": "object", "properties": {"children": {"type": "array", "items": {"$ref": "#"}}},
                                    "required": ["children"], "additionalProperties": false})";
  EXPECT_TRUE(valid(kTree, R"({"children": [{"children": []}, {"children": [{"children": []}]}]})"));
  // Ten places of itself: only shallow texts stay small enough.
  base::Json wide = {{"type", "object"}, {"properties", base::Json::object()}};
  for (int i = 0; i < 10; ++i) wide["properties"][fmt::format("p{}", i)] = {{"$ref", "#"}};
  LazyDfa dfa = schema_dfa(wide);
  EXPECT_TRUE(is_written(dfa, R"({"p0":{},"p3":{"p9":{}}})"));
  EXPECT_NE(schema_refusal(base::Json::parse(R"({"required": ["a"], "properties": {"a": {"$ref": "#"}}})"))
                .find("no text matches"),
            std::string::npos);
}

// Many properties that may all be missing, and any values, are no larger than what they are made of.
TEST(Schema, LargeShapesStaySmall) {
  base::Json schema = {{"type", "object"}, {"properties", base::Json::object()}};
  for (int i = 0; i < 300; ++i)
    schema["properties"][fmt::format("property_{}", i)] = {{"type", "string"}, {"maxLength", 20}};
  LazyDfa dfa = schema_dfa(schema);
  EXPECT_TRUE(is_written(dfa, R"({"property_7":"a", "property_299":"b"})"));
  EXPECT_FALSE(is_written(dfa, R"({"property_8":"a", "property_7":"b"})"));
  EXPECT_TRUE(valid(R"({"properties": {"a": {}, "b": {}, "c": {"type": "array"}, "d": {"type": "object"}}})",
                    R"({"a":[[[["x"]]]],"d":{"e":{"f":[{}]}}})"));
}

TEST(Schema, ThoseThatGrowAreRefusedBeforeTheyDo) {
  base::Json definitions = base::Json::object();
  for (int i = 0; i < 30; ++i) {
    const base::Json next = {{"$ref", fmt::format("#/$defs/n{}", i + 1)}};
    definitions[fmt::format("n{}", i)] = {{"anyOf", base::Json::array({next, next})}};
  }
  definitions["n30"] = {{"type", "null"}};
  const base::Json schema = {{"$ref", "#/$defs/n0"}, {"$defs", definitions}};
  EXPECT_THROW(parse_schema(schema, "generate.json_schema"), Error);
  base::Json nested = {{"type", "integer"}};
  for (int i = 0; i < 30; ++i) nested = {{"type", "array"}, {"items", nested}};
  EXPECT_EQ(schema_refusal(nested), "");
  for (int i = 0; i < 10; ++i) nested = {{"type", "array"}, {"items", nested}};
  EXPECT_NE(schema_refusal(nested).find("nested deeper than 32"), std::string::npos);
  base::Json doubled = {{"type", "null"}};  // twice what is in it, 30 times
  base::Json places = base::Json::object();
  for (int i = 0; i < 30; ++i) {
    const base::Json next = {{"$ref", fmt::format("#/$defs/n{}", i + 1)}};
    places[fmt::format("n{}", i)] = {
        {"allOf", base::Json::array({next, {{"allOf", base::Json::array({next})}}})}};
  }
  places["n30"] = doubled;
  EXPECT_NE(schema_refusal({{"$ref", "#/$defs/n0"}, {"$defs", places}}).find("too large"), std::string::npos);
}

}  // namespace
}  // namespace trl::text
