#include "config/generation/generation_kwargs.h"

#include <gtest/gtest.h>

#include "config/settings.h"

namespace trl::config {
namespace {

constexpr std::string_view kGenerationKwargs = "generate.generation_kwargs";

Config with_kwargs(std::string_view kwargs, Settings more = {}) {
  more.emplace_back(kGenerationKwargs, kwargs);
  return with_generation_kwargs(config_with(more));
}

TEST(GenerationKwargs, AreTheOptionsByBothLibrariesNames) {
  const std::vector<std::array<std::string_view, 4>> cases = {
      {"max_new_tokens", "7", "max_new_tokens", "7"},
      {"max_tokens", "7", "max_new_tokens", "7"},
      {"min_tokens", "3", "min_new_tokens", "3"},
      {"min_new_tokens", "3", "min_new_tokens", "3"},
      {"temperature", "0.5", "temperature", "0.5"},
      {"top_k", "-1", "top_k", "0"},
      {"top_k", "12", "top_k", "12"},
      {"top_p", "0.9", "top_p", "0.9"},
      {"min_p", "0.1", "min_p", "0.1"},
      {"typical_p", "0.4", "typical_p", "0.4"},
      {"epsilon_cutoff", "0.01", "epsilon_cutoff", "0.01"},
      {"eta_cutoff", "0.02", "eta_cutoff", "0.02"},
      {"repetition_penalty", "1.5", "repetition_penalty", "1.5"},
      {"frequency_penalty", "-0.5", "frequency_penalty", "-0.5"},
      {"presence_penalty", "1", "presence_penalty", "1"},
      {"no_repeat_ngram_size", "2", "no_repeat_ngram_size", "2"},
      {"bad_words", "[never, \"a b\"]", "bad_words", R"(["never","a b"])"},
      {"bad_words_ids", "[[1], [2, 3]]", "bad_words_ids", R"(["[1]","[2,3]"])"},
      {"suppress_tokens", "[4, 5]", "suppress_tokens", R"(["4","5"])"},
      {"allowed_token_ids", "[4]", "allowed_token_ids", R"(["4"])"},
      {"logit_bias", "{4: 1.5}", "logit_bias", R"({"4":1.5})"},
      {"seed", "9", "seed", "9"},
      {"speculative_config", "{method: ngram}", "speculative_config", R"({"method":"ngram"})"},
      {"stop", "\"a b\"", "stop", R"(["a b"])"},
      {"stop_strings", "[\"a b\", c]", "stop", R"(["a b","c"])"},
      {"stop_token_ids", "[4]", "stop_token_ids", R"(["4"])"},
      {"eos_token_id", "4", "eos_token_id", R"(["4"])"},
      {"eos_token_id", "[4, 5]", "eos_token_id", R"(["4","5"])"},
      {"ignore_eos", "true", "ignore_eos", "true"},
      {"logprobs", "5", "logprobs", "5"},
      {"n", "1", "num_return_sequences", "1"},
      {"n", "4", "num_return_sequences", "4"},
      {"num_return_sequences", "4", "num_return_sequences", "4"},
      {"num_beams", "1", "num_return_sequences", "1"},
  };
  for (const auto& [name, value, option, want] : cases) {
    const Config config = with_kwargs(fmt::format("{{{}: {}}}", name, value));
    EXPECT_EQ(config.get(fmt::format("generate.{}", option)), want) << name;
  }
}

TEST(GenerationKwargs, OverrideTheOptionsOfTheGroup) {
  const Settings own = {{"generate.top_p", "0.5"}, {"generate.top_k", "5"}};
  EXPECT_EQ(with_kwargs("null", own).get("generate.top_p"), "0.5");
  const Config config = with_kwargs("{top_p: 0.9, top_k: null}", own);
  EXPECT_EQ(config.get("generate.top_p"), "0.9");
  EXPECT_EQ(config.get("generate.top_k"), "5");
}

TEST(GenerationKwargs, DoSampleDecidesBetweenGreedyAndATemperature) {
  const auto temperature = [](std::string_view kwargs, std::string_view own) {
    return with_kwargs(kwargs, {{"generate.temperature", own}}).get_double("generate.temperature");
  };
  EXPECT_EQ(temperature("{do_sample: false}", "0.7"), 0);
  EXPECT_EQ(temperature("{do_sample: false, temperature: 0.9}", "0.7"), 0);
  EXPECT_EQ(temperature("{do_sample: true}", "0.7"), 0.7);
  EXPECT_EQ(temperature("{do_sample: true}", "0"), 1);
  EXPECT_EQ(temperature("{do_sample: true, temperature: 0}", "0.7"), 0);
  EXPECT_EQ(temperature("{do_sample: null, num_beams: 1}", "0.7"), 0.7);
}

TEST(GenerationKwargs, MaySayWhatHoldsAnyway) {
  const Config none = with_kwargs("null");
  for (const std::string_view entry : {"pad_token_id: 0",
                                       "bos_token_id: 1",
                                       "use_cache: true",
                                       "use_cache: false",
                                       "num_beams: 1",
                                       "output_scores: false",
                                       "output_logits: false",
                                       "output_attentions: false",
                                       "output_hidden_states: false",
                                       "return_dict_in_generate: true",
                                       "return_dict_in_generate: false",
                                       "guidance_scale: 1.0",
                                       "diversity_penalty: 0.0",
                                       "num_beam_groups: 1",
                                       "length_penalty: 1.2",
                                       "early_stopping: true",
                                       "synced_gpus: false",
                                       "remove_invalid_values: false",
                                       "best_of: 1",
                                       "detokenize: true",
                                       "skip_special_tokens: true",
                                       "spaces_between_special_tokens: true",
                                       "include_stop_str_in_output: false",
                                       "n: 1"}) {
    const Config config = with_kwargs(fmt::format("{{{}}}", entry));
    for (const Option& option : options()) {
      if (!option.name.starts_with("generate.") || option.name == kGenerationKwargs) continue;
      EXPECT_EQ(config.get(option.name), none.get(option.name)) << entry << ": " << option.name;
    }
  }
}

TEST(GenerationKwargs, AreRefusedByName) {
  const auto refusal = [](std::string_view kwargs) {
    try {
      with_kwargs(kwargs);
    } catch (const Error& error) {
      EXPECT_EQ(error.status(), Status::invalid_config);
      EXPECT_EQ(error.key(), kGenerationKwargs);
      return error.message();
    }
    ADD_FAILURE() << kwargs << " is taken";
    return std::string();
  };
  EXPECT_EQ(
      refusal("{num_beams: 4}"),
      "generate.generation_kwargs: num_beams: '4' is refused: this build does not search with beams; give 1");
  EXPECT_EQ(refusal("{n: 4, num_return_sequences: 5}"),
            "generate.generation_kwargs: num_return_sequences contradicts n: give one of them");
  EXPECT_TRUE(refusal("{n: 0}").starts_with("generate.generation_kwargs: n: '0' is not accepted; give "));
  EXPECT_EQ(refusal("{output_scores: true}"),
            "generate.generation_kwargs: output_scores: 'true' is refused: logprobs gives log-probabilities; "
            "give false");
  EXPECT_EQ(
      refusal("{guidance_scale: 1.5}"),
      "generate.generation_kwargs: guidance_scale: '1.5' is refused: this build does not guide; give 1");
  EXPECT_EQ(refusal("{top_p: 0}"),
            "generate.generation_kwargs: top_p: '0' is not accepted; give a number in (0, 1]");
  EXPECT_EQ(refusal("{max_tokens: 0}"),
            "generate.generation_kwargs: max_tokens: '0' is not accepted; give an integer > 0");
  EXPECT_EQ(refusal("{do_sample: maybe}"),
            "generate.generation_kwargs: do_sample: 'maybe' is not accepted; give true or false");
  EXPECT_EQ(refusal("{max_tokens: 4, max_new_tokens: 5}"),
            "generate.generation_kwargs: max_new_tokens contradicts max_tokens: give one of them");
  EXPECT_NE(refusal("{repetition_penalty: .nan}").find("repetition_penalty"), std::string::npos);
  const std::string unknown = refusal("{top_q: 0.5}");
  EXPECT_NE(unknown.find("'top_q'"), std::string::npos) << unknown;
  EXPECT_NE(unknown.find("did you mean top_"), std::string::npos) << unknown;
  EXPECT_NE(unknown.find("accepted: allowed_token_ids, bad_words, bad_words_ids, best_of, bos_token_id, "),
            std::string::npos)
      << unknown;
  for (const char* name : {", n, ", ", max_tokens, ", ", stop_strings, ", ", do_sample, "})
    EXPECT_NE(unknown.find(name), std::string::npos) << unknown;
  EXPECT_NE(find_option(kGenerationKwargs)->doc.find("the error for an unknown name lists all"),
            std::string_view::npos);
  EXPECT_NE(refusal("{penalty_alpha: 0.6}").find("'penalty_alpha'"), std::string::npos);
  // Without a value, too: in YAML this is a name, because there is no space behind the colon.
  const std::string joined = refusal("{num_beams:4}");
  EXPECT_NE(joined.find("'num_beams:4' is not an entry of this build; did you mean num_beams?"),
            std::string::npos)
      << joined;
  EXPECT_NE(refusal("{top_q: null}").find("'top_q'"), std::string::npos);
}

TEST(GenerationKwargs, ALaterErrorNamesTheEntryThatHasSetTheOption) {
  const Config given = config_with(
      {{kGenerationKwargs, "{max_tokens: 4, logit_bias: {9: 1}, structured_outputs: {regex: a+}}"}});
  const auto named = [&](std::string key, const std::string& rest) {
    const Error error(Status::invalid_config, key + rest, key);
    const Error own = named_as_entry(error, given, kGenerationKwargs);
    return own.key() + " | " + own.message();
  };
  const std::string key(kGenerationKwargs);
  EXPECT_EQ(named("generate.max_new_tokens", ": is long"), key + " | " + key + ": max_tokens: is long");
  EXPECT_EQ(named("logit_bias", " of id 9 is inf"), key + " | " + key + ": logit_bias of id 9 is inf");
  EXPECT_EQ(named("generate.regex", ": too many"), key + " | " + key + ": structured_outputs: too many");
  EXPECT_EQ(named("generate.top_k", ": no"), "generate.top_k | generate.top_k: no");  // not by an entry
  EXPECT_EQ(named("", "no key"), " | no key");
  EXPECT_EQ(named(key, ": no"), key + " | " + key + ": no");
}

}  // namespace
}  // namespace trl::config
