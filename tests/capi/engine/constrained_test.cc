// Completions that match: the keys of requests, and the trainers' vllm_structured_outputs_regex.
#include <regex>

#include "engine/requests.h"
#include "engine/rewarded.h"

namespace {

using host::Error;
using host::Json;
using host::Settings;

#define NEED_MODEL() NEED_GOLDEN("models/qwen2/model.safetensors")

std::string refusal(trl_generator* g, const Settings& options) {
  size_t first = 0;
  Error error;
  EXPECT_EQ(trl_generator_add(g, "A", 1, nullptr, 0, host::config(options).get(), &first, error),
            TRL_E_INVALID_CONFIG);
  return error.message();
}

std::string completed(trl_generator* g, const Settings& options) {
  const size_t number = host::add(g, "row 3", host::with({{"generate.max_new_tokens", "60"}}, options));
  host::finish(g);
  const nlohmann::json one = host::taken(g, number);
  EXPECT_EQ(one["finish_reason"], "stop") << one.dump();
  return one["text"];
}

TEST(Constrained, ARequestsTextMatches) {
  NEED_MODEL();
  const auto model = host::open_model(host::golden("models/qwen2"));
  const auto g = host::generator_of(model.get());
  for (const char* const temperature : {"0", "1", "2"}) {
    const Settings at = {{"generate.temperature", temperature}};
    const std::string pattern = "[A-Z][a-z]{1,4}-[0-9]{2,5}";
    const std::string text = completed(g.get(), host::with(at, {{"generate.regex", pattern}}));
    EXPECT_TRUE(std::regex_match(text, std::regex(pattern))) << text;
    const std::string chosen =
        completed(g.get(), host::with(at, {{"generate.choice", R"(["yes", "no, never", "ja"])"}}));
    EXPECT_TRUE(chosen == "yes" || chosen == "no, never" || chosen == "ja") << chosen;
    const std::string json =
        completed(g.get(), host::with(at, {{"generate.json_schema",
                                            R"({"type": "object", "properties": {"ok": {"type": "boolean"},
                                      "n": {"enum": [1, 2.5, "x"]}}, "required": ["ok", "n"]})"}}));
    const nlohmann::json value = nlohmann::json::parse(json);
    EXPECT_TRUE(value.at("ok").is_boolean() && value.size() == 2) << json;
  }
  EXPECT_EQ(completed(g.get(), {{"generate.generation_kwargs", "{structured_outputs: {choice: [blue]}}"}}),
            "blue");
  EXPECT_EQ(completed(g.get(), {{"generate.generation_kwargs",
                                 R"({structured_outputs: {regex: "(on|off){2}", json: null},
                                                                    seed: 3})"}})
                .substr(0, 1),
            "o");
}

TEST(Constrained, WhatCannotBeKeptIsRefusedByKeyAndPlace) {
  NEED_MODEL();
  const auto model = host::open_model(host::golden("models/qwen2"));
  const auto g = host::generator_of(model.get());
  const std::pair<Settings, const char*> rows[] = {
      {{{"generate.regex", "ab(c"}},
       "generate.regex: character 3 of the pattern 'ab(c': the group is not closed"},
      {{{"generate.regex", "(a)\\1"}}, "back-references are not supported"},
      {{{"generate.regex", "a(?=b)"}}, "look-around"},
      {{{"generate.regex", "((a{900}){900}){900}"}}, "the pattern is too large"},
      {{{"generate.choice", R"(["a", ""])"}}, "generate.choice: a text is empty"},
      {{{"generate.choice", "[a]"}, {"generate.regex", "a"}}, "give one of them"},
      {{{"generate.json_schema", "{type: integer, multipleOf: 3}"}},
       "generate.json_schema: at #: 'multipleOf' is not supported"},
      {{{"generate.generation_kwargs", "{structured_outputs: {grammar: x}}"}}, "'grammar' is not supported"},
      {{{"generate.generation_kwargs", "{structured_outputs: {regex: a, choice: [b]}}"}},
       "regex and choice are not kept together"},
      {{{"generate.generation_kwargs", "{structured_outputs: a+}"}}, "is not a mapping"},
  };
  for (const auto& [options, text] : rows) {
    const std::string message = refusal(g.get(), options);
    EXPECT_NE(message.find(text), std::string::npos) << message;
  }
}

TEST(Constrained, TrainersKeepTheirCompletionsToTheRegex) {
  NEED_MODEL();
  const host::Scratch scratch;
  const std::regex pattern("[a-c]{1,4}");
  const auto check = [&](trl_rollout* rollout) {
    for (size_t i = 0; i < trl_rollout_count(rollout); ++i) {
      const std::string text = host::row_of(rollout, i)["completion"];
      EXPECT_TRUE(std::regex_match(text, pattern)) << text;
    }
    return host::reward_all(rollout);
  };
  const Settings regex = {{"use_vllm", "true"}, {"vllm_structured_outputs_regex", "[a-c]{1,4}"}};
  for (const char* const method : {"grpo", "rloo"}) {
    host::Rewarded run(host::grpo(scratch / method,
                                  host::with(regex, {{"method", method}, {"max_completion_length", "12"}})),
                       check);
    EXPECT_EQ(run.train(), TRL_OK) << run.error.message();
  }
  host::Rewarded online(
      host::online_dpo(scratch / "online_dpo", host::with(regex, {{"max_new_tokens", "12"}})), check);
  EXPECT_EQ(online.train(), TRL_OK) << online.error.message();
}

TEST(Constrained, TrainersNameTheirOwnKey) {
  NEED_MODEL();
  const host::Scratch scratch;
  const host::Dataset rows = host::rows(host::kPrompts);
  const Settings own = {{"use_vllm", "true"}, {"vllm_structured_outputs_regex", "(a"}};
  trl_trainer* made = nullptr;
  host::Error error;
  EXPECT_EQ(trl_trainer_create(host::runtime().get(), host::config(host::grpo(scratch / "out", own)).get(),
                               rows.get(), nullptr, &made, error),
            TRL_E_INVALID_CONFIG);
  EXPECT_TRUE(error.names("vllm_structured_outputs_regex: character 1 of the pattern '(a'"))
      << error.message();
}

}  // namespace
