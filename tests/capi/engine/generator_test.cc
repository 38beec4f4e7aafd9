// Text out of a model: greedy, sampled, streamed, stopped.
#include <algorithm>
#include <cmath>
#include <set>

#include "engine/run.h"

namespace {

using host::Error;

#define NEED_MODEL() NEED_GOLDEN("models/qwen2/model.safetensors")

host::Model open_qwen2(const host::Settings& options = {}) {
  return host::open_model(host::golden("models/qwen2"), options);
}

host::Generator generator(trl_model* model) {
  trl_generator* made = nullptr;
  Error error;
  EXPECT_EQ(trl_generator_create(model, nullptr, &made, error), TRL_OK) << error.message();
  return host::Generator(made);
}

struct Stream {
  std::vector<std::string> texts;
  std::vector<std::vector<int32_t>> tokens;
  std::vector<double> log_probabilities;  // of all, in their order
  size_t stop_after = 1000000;
  static int32_t on_token(void* data, size_t prompt, int32_t token, const char* text, size_t size,
                          double log_probability) {
    auto* self = static_cast<Stream*>(data);
    self->texts.resize(std::max(self->texts.size(), prompt + 1));
    self->tokens.resize(self->texts.size());
    self->texts[prompt].append(text, size);
    self->tokens[prompt].push_back(token);
    self->log_probabilities.push_back(log_probability);
    return self->tokens[prompt].size() >= self->stop_after ? 1 : 0;
  }
};

host::Completions run(trl_generator* g, const std::vector<const char*>& prompts,
                      const host::Settings& options = {}, Stream* stream = nullptr) {
  trl_completions* made = nullptr;
  Error error;
  EXPECT_EQ(trl_generator_generate(g, prompts.data(), nullptr, prompts.size(), host::config(options).get(),
                                   stream != nullptr ? Stream::on_token : nullptr, stream, &made, error),
            TRL_OK)
      << error.message();
  return host::Completions(made);
}

std::vector<int32_t> tokens(const host::Completions& completions, size_t index) {
  size_t count = 0;
  const int32_t* ids = trl_completions_tokens(completions.get(), index, &count);
  return {ids, ids + count};
}

std::string text(const host::Completions& completions, size_t index) {
  size_t size = 0;
  const char* bytes = trl_completions_text(completions.get(), index, &size);
  return {bytes, size};
}

TEST(Generate, GreedyIsRepeatableAndIndependentOfTheBatch) {
  NEED_MODEL();
  const auto model = open_qwen2();
  const auto g = generator(model.get());
  const host::Settings few = {{"generate.max_new_tokens", "12"}};
  const auto both = run(g.get(), {"The small kernel", "A"}, few);
  const auto again = run(g.get(), {"The small kernel"}, few);
  EXPECT_EQ(tokens(both, 0), tokens(again, 0));
  EXPECT_EQ(text(both, 0), text(again, 0));
  EXPECT_LE(tokens(both, 0).size(), 12u);
  EXPECT_FALSE(tokens(both, 1).empty());
  size_t size = 7;
  EXPECT_EQ(trl_completions_text(both.get(), 2, &size), nullptr);
  EXPECT_EQ(size, 0u);
  EXPECT_EQ(trl_completions_tokens(both.get(), 2, &size), nullptr);
}

TEST(Generate, TheStreamAddsUpToTheText) {
  NEED_MODEL();
  const auto model = open_qwen2();
  const auto g = generator(model.get());
  Stream stream;
  const auto all = run(g.get(), {"row 3", "What does the"}, {{"generate.max_new_tokens", "20"}}, &stream);
  ASSERT_EQ(stream.texts.size(), 2u);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(stream.tokens[i], tokens(all, i));
    EXPECT_EQ(stream.texts[i], text(all, i));
  }
  Stream stopping;
  stopping.stop_after = 3;
  const auto cut = run(g.get(), {"row 3"}, {{"generate.max_new_tokens", "20"}}, &stopping);
  EXPECT_EQ(tokens(cut, 0).size(), 3u);
  EXPECT_STREQ(trl_completions_finish_reason(cut.get(), 0), "callback");
  EXPECT_EQ(trl_completions_finish_reason(cut.get(), 1), nullptr);
  EXPECT_EQ(trl_completions_finish_reason(nullptr, 0), nullptr);
  stopping = {};
  stopping.stop_after = 20;  // what would have been the last anyway
  const auto full = run(g.get(), {"row 3"}, {{"generate.max_new_tokens", "20"}}, &stopping);
  EXPECT_STREQ(trl_completions_finish_reason(full.get(), 0), "length");
}

TEST(Generate, ACompletionEndsWithAnEndToken) {
  NEED_MODEL();
  const auto free = run(generator(open_qwen2().get()).get(), {"row 3"}, {{"generate.max_new_tokens", "20"}});
  ASSERT_EQ(tokens(free, 0).size(), 20u);
  trl_tokenizer* made = nullptr;
  ASSERT_EQ(trl_tokenizer_open(nullptr, host::golden("models/qwen2").c_str(), nullptr, &made, nullptr),
            TRL_OK);
  const host::Tokenizer tokenizer(made);
  std::string piece(64, '\0');
  size_t size = 0;
  ASSERT_EQ(trl_tokenizer_get_piece(made, tokens(free, 0)[5], piece.data(), piece.size(), &size, nullptr),
            TRL_OK);
  piece.resize(size);
  trl_generator* ending = nullptr;
  trl_tokenizer* other = nullptr;
  Error error;
  ASSERT_EQ(trl_tokenizer_open(nullptr, host::golden("models/qwen2").c_str(),
                               host::config({{"eos_token", piece}}).get(), &other, error),
            TRL_OK)
      << error.message();
  const host::Tokenizer with_end(other);
  const auto model = open_qwen2();
  ASSERT_EQ(trl_generator_create(model.get(), other, &ending, nullptr), TRL_OK);
  const host::Generator g(ending);
  const auto ended = run(g.get(), {"row 3"}, {{"generate.max_new_tokens", "20"}});
  EXPECT_STREQ(trl_completions_finish_reason(ended.get(), 0), "eos_token");
  EXPECT_LE(tokens(ended, 0).size(), 6u);
}

TEST(Generate, AQuantisedModelAnswersToo) {
  NEED_MODEL();
  const host::Settings some = {{"generate.max_new_tokens", "32"}};
  const std::vector<int32_t> plain =
      tokens(run(generator(open_qwen2().get()).get(), {"The small kernel"}, some), 0);
  std::set<std::vector<int32_t>> answers = {plain};
  for (const host::Settings& form : std::vector<host::Settings>{
           {{"load_in_4bit", "true"}}, {{"load_in_4bit", "true"}, {"bnb_4bit_quant_type", "fp4"}}}) {
    const auto model = open_qwen2(form);
    answers.insert(tokens(run(generator(model.get()).get(), {"The small kernel"}, some), 0));
  }
  EXPECT_EQ(answers.size(), 3u);  // of a random model they differ soon
  const auto eight = open_qwen2({{"load_in_8bit", "true"}});
  EXPECT_FALSE(tokens(run(generator(eight.get()).get(), {"The small kernel"}, some), 0).empty());
  trl_model* made = nullptr;
  Error error;
  const host::Settings both = {{"load_in_8bit", "true"}, {"load_in_4bit", "true"}};
  EXPECT_EQ(
      trl_model_open(nullptr, host::golden("models/qwen2").c_str(), host::config(both).get(), &made, error),
      TRL_E_INVALID_CONFIG);
  EXPECT_EQ(error.key(), "load_in_8bit");
}

TEST(Generate, SamplingFollowsItsSeed) {
  NEED_MODEL();
  const auto model = open_qwen2();
  const auto g = generator(model.get());
  const auto sample = [&](const char* seed) {
    return tokens(
        run(g.get(), {"The"},
            {{"generate.max_new_tokens", "24"}, {"generate.temperature", "1.5"}, {"generate.seed", seed}}),
        0);
  };
  EXPECT_EQ(sample("1"), sample("1"));
  EXPECT_NE(sample("1"), sample("2"));
}

TEST(Generate, AStopTextEndsBeforeItself) {
  NEED_MODEL();
  const auto model = open_qwen2();
  const auto g = generator(model.get());
  const auto whole = text(run(g.get(), {"row 3"}, {{"generate.max_new_tokens", "20"}}), 0);
  ASSERT_GT(whole.size(), 6u);
  std::string stop = whole.substr(3, 2);
  const auto plain = [](char c) { return c > ' ' && c < 0x7f && c != '"' && c != '\\'; };
  ASSERT_TRUE(std::all_of(stop.begin(), stop.end(), plain)) << whole;
  Stream stream;
  const auto cut = run(g.get(), {"row 3"},
                       {{"generate.max_new_tokens", "20"}, {"generate.stop", "[\"" + stop + "\"]"}}, &stream);
  EXPECT_EQ(text(cut, 0), whole.substr(0, whole.find(stop)));
  EXPECT_EQ(stream.texts[0], text(cut, 0));
  EXPECT_STREQ(trl_completions_finish_reason(cut.get(), 0), "stop_sequence");
}

host::Json json_of(const host::Completions& completions, size_t index) {
  size_t size = 0;
  const char* const json = trl_completions_json(completions.get(), index, &size);
  EXPECT_NE(json, nullptr);
  return json == nullptr ? host::Json() : host::parse({json, size});
}

TEST(Generate, OptionsDecideWhatIsChosen) {
  NEED_MODEL();
  const auto model = open_qwen2();
  const auto g = generator(model.get());
  const auto generated = [&](const host::Settings& options) {
    return run(g.get(), {"row 3"}, host::with({{"generate.max_new_tokens", "12"}}, options));
  };
  const auto ids = [&](const host::Settings& options) { return tokens(generated(options), 0); };
  const auto without = [](const std::vector<int32_t>& all, int32_t id) {
    return std::find(all.begin(), all.end(), id) == all.end();
  };
  const std::vector<int32_t> plain = ids({});
  ASSERT_EQ(plain.size(), 12u);
  const std::string first = std::to_string(plain[0]), third = std::to_string(plain[2]);
  EXPECT_TRUE(without(ids({{"generate.suppress_tokens", first}}), plain[0]));
  EXPECT_TRUE(without(ids({{"generate.bad_words_ids", "[[" + first + "]]"}}), plain[0]));
  EXPECT_TRUE(without(ids({{"generate.logit_bias", "{" + first + ": -1000}"}}), plain[0]));
  EXPECT_EQ(ids({{"generate.logit_bias", "{7: 1000}"}}), std::vector<int32_t>(12, 7));
  EXPECT_EQ(ids({{"generate.allowed_token_ids", "[7]"}}), std::vector<int32_t>(12, 7));
  EXPECT_EQ(ids({{"generate.bad_words_ids", "[[" + first + ", 511]]"}}), plain);  // only one after the other
  const std::vector<int32_t> fresh = ids({{"generate.repetition_penalty", "1e6"}});
  EXPECT_EQ(std::set<int32_t>(fresh.begin(), fresh.end()).size(), 12u);
  for (const char* key : {"generate.presence_penalty", "generate.frequency_penalty"}) {
    const std::vector<int32_t> other = ids({{key, "1e6"}});
    EXPECT_EQ(std::set<int32_t>(other.begin(), other.end()).size(), 12u) << key;
  }
  const std::vector<int32_t> varied = ids({{"generate.no_repeat_ngram_size", "1"}});
  EXPECT_EQ(std::set<int32_t>(varied.begin(), varied.end()).size(), 12u);
  // Removals that leave the most likely token make any temperature greedy.
  const host::Settings hot = {{"generate.temperature", "2"}};
  const std::vector<int32_t> free = ids(hot);
  EXPECT_NE(free, plain);
  for (const auto& removal : host::Settings{{"generate.top_k", "1"},
                                            {"generate.top_p", "1e-9"},
                                            {"generate.min_p", "1"},
                                            {"generate.epsilon_cutoff", "0.9999"}})
    EXPECT_EQ(ids(host::with(hot, {removal})), plain) << removal.first;
  for (const auto& removal :
       host::Settings{{"generate.eta_cutoff", "0.9999"}, {"generate.typical_p", "0.01"}})
    EXPECT_NE(ids(host::with(hot, {removal})), free) << removal.first;
  const host::Settings both = host::with(hot, {{"generate.top_p", "0.5"}, {"generate.min_p", "0.5"}});
  EXPECT_NE(ids(both), ids(host::with(both, {{"generate.sampling_order", "vllm"}})));
}

TEST(Generate, OptionsDecideWhatEndsACompletion) {
  NEED_MODEL();
  const auto model = open_qwen2();
  const auto g = generator(model.get());
  const auto generated = [&](const host::Settings& options) {
    return run(g.get(), {"row 3"}, host::with({{"generate.max_new_tokens", "12"}}, options));
  };
  const std::vector<int32_t> plain = tokens(generated({}), 0);
  const std::string third = std::to_string(plain[2]);
  const size_t place = std::find(plain.begin(), plain.end(), plain[2]) - plain.begin() + 1;
  for (const char* key : {"generate.stop_token_ids", "generate.eos_token_id"}) {
    const auto ended = generated({{key, third}});
    EXPECT_EQ(tokens(ended, 0).size(), place) << key;
    EXPECT_STREQ(trl_completions_finish_reason(ended.get(), 0), "eos_token") << key;
    const auto later = generated({{key, third}, {"generate.min_new_tokens", "8"}});
    EXPECT_TRUE(tokens(later, 0).size() >= 8) << key;
  }
  EXPECT_EQ(tokens(generated({{"generate.eos_token_id", third}, {"generate.ignore_eos", "true"}}), 0), plain);
  EXPECT_EQ(
      tokens(generated({{"generate.stop_token_ids", third}, {"generate.ignore_eos", "true"}}), 0).size(),
      place);
}

TEST(Generate, BadWordsAreTexts) {
  NEED_MODEL();
  const auto model = open_qwen2();
  const auto g = generator(model.get());
  const host::Settings few = {{"generate.max_new_tokens", "12"}};
  const std::string whole = text(run(g.get(), {"row 3"}, few), 0);
  const auto letter =
      std::find_if(whole.begin(), whole.end(), [](char c) { return c > ' ' && c < 0x7f && c != '"'; });
  ASSERT_NE(letter, whole.end());
  const std::string word(1, *letter);
  const auto other = run(g.get(), {"row 3"}, host::with(few, {{"generate.bad_words", "[\"" + word + "\"]"}}));
  trl_tokenizer* made = nullptr;
  ASSERT_EQ(trl_tokenizer_open(nullptr, host::golden("models/qwen2").c_str(), nullptr, &made, nullptr),
            TRL_OK);
  const host::Tokenizer tokenizer(made);
  int32_t id = -1;
  size_t count = 0;
  ASSERT_EQ(trl_tokenizer_encode(made, word.data(), 1, 0, 0, &id, 1, &count, nullptr), TRL_OK);
  const std::vector<int32_t> all = tokens(other, 0);
  EXPECT_EQ(std::find(all.begin(), all.end(), id), all.end());
}

TEST(Generate, LogProbabilitiesAreInTheJson) {
  NEED_MODEL();
  const auto model = open_qwen2();
  const auto g = generator(model.get());
  const host::Settings few = {
      {"generate.max_new_tokens", "5"}, {"generate.temperature", "1.5"}, {"generate.top_k", "3"}};
  Stream silent, told;
  const auto none = json_of(run(g.get(), {"row 3"}, few, &silent), 0);
  EXPECT_FALSE(none.contains("logprobs"));
  EXPECT_EQ(silent.log_probabilities.size(), 5u);
  EXPECT_TRUE(std::ranges::all_of(silent.log_probabilities, [](double one) { return std::isnan(one); }));
  const auto one = json_of(run(g.get(), {"row 3"}, host::with(few, {{"generate.logprobs", "0"}}), &told), 0);
  EXPECT_EQ(told.log_probabilities, one["logprobs"].get<std::vector<double>>());
  EXPECT_EQ(one["token_ids"], none["token_ids"]);
  EXPECT_EQ(one["text"], none["text"]);
  EXPECT_EQ(one["finish_reason"], "length");
  EXPECT_EQ(one["logprobs"].size(), 5u);
  EXPECT_FALSE(one.contains("top_logprobs"));
  const auto completions = run(g.get(), {"row 3"}, host::with(few, {{"generate.logprobs", "4"}}));
  const auto all = json_of(completions, 0);
  EXPECT_EQ(all["logprobs"], one["logprobs"]);
  for (size_t i = 0; i < 5; ++i) {
    ASSERT_EQ(all["sampling_top_logprobs"][i].size(), 3u);
    ASSERT_EQ(all["top_logprobs"][i].size(), 4u);
    double sum = 0;
    bool drawn = false;
    for (const auto& pair : all["sampling_top_logprobs"][i]) {
      sum += std::exp(pair[1].get<double>());
      drawn |= pair[0] == all["token_ids"][i] && pair[1] == all["sampling_logprobs"][i];
    }
    EXPECT_NEAR(sum, 1, 1e-5);
    EXPECT_TRUE(drawn);
    EXPECT_LT(all["logprobs"][i], all["sampling_logprobs"][i]);
  }
  size_t size = 7;
  EXPECT_EQ(trl_completions_json(completions.get(), 1, &size), nullptr);
  EXPECT_EQ(size, 0u);
  EXPECT_EQ(trl_completions_json(nullptr, 0, nullptr), nullptr);
}

TEST(Generate, GenerationKwargsGoOverTheOptions) {
  NEED_MODEL();
  const auto model = open_qwen2();
  const auto g = generator(model.get());
  const auto ids = [&](const char* kwargs, const char* temperature) {
    return tokens(run(g.get(), {"row 3"},
                      {{"generate.max_new_tokens", "12"},
                       {"generate.temperature", temperature},
                       {"generate.generation_kwargs", kwargs}}),
                  0);
  };
  EXPECT_EQ(ids("{do_sample: false}", "1.5"), ids("null", "0"));
  EXPECT_EQ(ids("{temperature: 1.5, seed: 3}", "0"), ids("{seed: 3}", "1.5"));
  EXPECT_NE(ids("{temperature: 1.5, seed: 3}", "0"), ids("{seed: 4}", "1.5"));
  EXPECT_EQ(ids("{max_tokens: 3}", "0").size(), 3u);
}

TEST(Generate, OptionsThatCannotBeMeantAreRefusedByKey) {
  NEED_MODEL();
  const auto model = open_qwen2();
  const auto g = generator(model.get());
  const char* const prompt = "row 3";
  std::string message;
  const auto refused = [&](const host::Settings& options) {
    Error error;
    trl_config* made = nullptr;
    EXPECT_EQ(trl_config_create(&made, nullptr), TRL_OK);
    const host::Config config(made);
    trl_status status = TRL_OK;
    for (const auto& [key, value] : options)
      if (status == TRL_OK) status = trl_config_set(made, key.c_str(), value.c_str(), error);
    if (status == TRL_OK)
      status = trl_generator_generate(g.get(), &prompt, nullptr, 1, made, nullptr, nullptr, nullptr, error);
    EXPECT_EQ(status, TRL_E_INVALID_CONFIG) << options[0].first << ": " << options[0].second;
    message = error.message();
    std::string key(error.key());
    return key.starts_with("generate.") ? key.substr(9) : key;
  };
  const std::string deep = "['" + std::string(200000, '[') + std::string(200000, ']') + "']";
  for (const auto& [key, value] : host::Settings{{"max_new_tokens", "0"},
                                                 {"min_new_tokens", "257"},
                                                 {"top_p", "0"},
                                                 {"repetition_penalty", "nan"},
                                                 {"frequency_penalty", "nan"},
                                                 {"presence_penalty", ".nan"},
                                                 {"typical_p", "0"},
                                                 {"epsilon_cutoff", "1"},
                                                 {"eta_cutoff", "-1"},
                                                 {"sampling_order", "llama.cpp"},
                                                 {"stop", "[\"\"]"},
                                                 {"stop", "[a, \"\"]"},
                                                 {"bad_words", "[\"\"]"},
                                                 {"bad_words_ids", "[5]"},
                                                 {"bad_words_ids", "[[]]"},
                                                 {"bad_words_ids", "[[5, 512]]"},
                                                 {"bad_words_ids", deep},
                                                 {"suppress_tokens", "[512]"},
                                                 {"suppress_tokens", "[-1]"},
                                                 {"allowed_token_ids", "[word]"},
                                                 {"allowed_token_ids", "[99999999999]"},
                                                 {"logit_bias", "{512: 1}"},
                                                 {"logit_bias", "{5: .nan}"},
                                                 {"logit_bias", "{word: 1}"},
                                                 {"stop_token_ids", "[1.5]"},
                                                 {"stop_token_ids", "[5, 512]"},
                                                 {"eos_token_id", "[a]"},
                                                 {"eos_token_id", "[512]"},
                                                 {"allowed_token_ids", "[512]"},
                                                 {"logprobs", "-1"},
                                                 {"generation_kwargs", "{num_beams: 2}"},
                                                 {"generation_kwargs", "{guidance_scale: 2}"}}) {
    EXPECT_EQ(refused({{"generate." + key, value}}), key) << value;
  }
  for (const char* kwargs : {"{logit_bias: {512: 1}}", "{bad_words_ids: [5]}", "{do_sample: false, n: 2}"}) {
    EXPECT_EQ(refused({{"generate.generation_kwargs", kwargs}}), "generation_kwargs");
    EXPECT_TRUE(message.starts_with("generate.generation_kwargs: ")) << message;
  }
  EXPECT_EQ(tokens(run(g.get(), {prompt}, {{"generate.max_new_tokens", "3"}}), 0).size(), 3u);
}

// The messages in the model's template, up to the answer.
std::string rendered(const std::string& messages) {
  trl_tokenizer* made = nullptr;
  EXPECT_EQ(trl_tokenizer_open(nullptr, host::golden("models/qwen2").c_str(), nullptr, &made, nullptr),
            TRL_OK);
  const host::Tokenizer tokenizer(made);
  const std::string json = R"({"messages": )" + messages + R"(, "add_generation_prompt": true})";
  char text[512];
  size_t size = 0;
  EXPECT_EQ(trl_tokenizer_apply_chat_template(tokenizer.get(), json.data(), json.size(), text, sizeof text,
                                              &size, nullptr),
            TRL_OK);
  return {text, size};
}

TEST(Generate, ChatIsOneUserMessage) {
  NEED_MODEL();
  const auto model = open_qwen2();
  const auto g = generator(model.get());
  const host::Settings few = {{"generate.max_new_tokens", "8"}};
  const auto chat = run(g.get(), {"Hello"}, host::with(few, {{"generate.chat", "true"}}));
  EXPECT_EQ(tokens(run(g.get(), {rendered(R"([{"role": "user", "content": "Hello"}])").c_str()}, few), 0),
            tokens(chat, 0));
  EXPECT_NE(tokens(run(g.get(), {"Hello"}, few), 0), tokens(chat, 0));
}

TEST(Generate, ARowKeepsTheVariablesOfItsTemplate) {
  NEED_GOLDEN("models/qwen3/model.safetensors");
  const auto model = host::open_model(host::golden("models/qwen3"), {});
  const auto g = generator(model.get());
  const host::Settings few = {{"generate.max_new_tokens", "8"}};
  const std::string text = "<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n";
  const std::string row = R"({"messages": [{"role": "user", "content": "Hello"}], "chat_template_kwargs": )";
  for (const auto& [variables, begun] :
       {std::pair{"{\"enable_thinking\": false}", "<think>\n\n</think>\n\n"},
        std::pair{"{\"enable_thinking\": true}", ""}, std::pair{"null", ""}}) {
    const auto chat =
        run(g.get(), {(row + variables + "}").c_str()}, host::with(few, {{"generate.chat", "true"}}));
    EXPECT_EQ(tokens(run(g.get(), {(text + begun).c_str()}, few), 0), tokens(chat, 0)) << variables;
  }
}

TEST(Generate, ASystemMessageComesFirst) {
  NEED_MODEL();
  const auto model = open_qwen2();
  const auto g = generator(model.get());
  const host::Settings few = {{"generate.max_new_tokens", "8"}, {"generate.system", "Be brief."}};
  const auto chat = run(g.get(), {"Hello"}, host::with(few, {{"generate.chat", "true"}}));
  const std::string both =
      rendered(R"([{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello"}])");
  EXPECT_EQ(tokens(run(g.get(), {both.c_str()}, {few[0]}), 0), tokens(chat, 0));
  Error error;
  const char* const prompt = "Hello";
  EXPECT_EQ(trl_generator_generate(g.get(), &prompt, nullptr, 1, host::config(few).get(), nullptr, nullptr,
                                   nullptr, error),
            TRL_E_INVALID_CONFIG);
  EXPECT_EQ(error.key(), "generate.system");
}

TEST(Generate, AConversationWhoseMessagesHaveNoRoleIsRefused) {
  NEED_MODEL();
  const auto model = open_qwen2();
  const auto g = generator(model.get());
  const auto options = host::config({{"generate.chat", "true"}, {"generate.system", "Be brief."}});
  constexpr std::string_view kNoText = "its role is a number, but text is expected";
  const std::pair<const char*, std::string_view> wrong[] = {
      {R"([{"role": 5, "content": "Hello"}])", kNoText},
      {R"([{"role": "user"}, "Hello"])", "an object with a 'role' is expected"},
      {R"({"messages": [{"role": 5, "content": "Hello"}]})", kNoText}};
  for (const auto& [prompt, said] : wrong) {
    Error error;
    EXPECT_EQ(
        trl_generator_generate(g.get(), &prompt, nullptr, 1, options.get(), nullptr, nullptr, nullptr, error),
        TRL_E_FORMAT)
        << prompt;
    EXPECT_TRUE(error.names(said)) << error.message();
  }
}

TEST(Generate, SeveralCompletionsOfAPromptFollowEachOther) {
  NEED_MODEL();
  const auto model = open_qwen2();
  const auto g = generator(model.get());
  const host::Settings one = {{"generate.max_new_tokens", "12"}, {"generate.temperature", "1.5"}};
  const host::Settings three = host::with(one, {{"generate.num_return_sequences", "3"}});
  Stream stream;
  const auto all = run(g.get(), {"The", "row 3"}, three, &stream);
  ASSERT_EQ(stream.texts.size(), 6u);
  std::set<std::vector<int32_t>> of_the_first;
  for (size_t i = 0; i < 6; ++i) {
    EXPECT_EQ(stream.texts[i], text(all, i));
    if (i < 3) of_the_first.insert(tokens(all, i));
  }
  EXPECT_EQ(of_the_first.size(), 3u);
  size_t size = 0;
  EXPECT_EQ(trl_completions_text(all.get(), 6, &size), nullptr);
  EXPECT_EQ(tokens(all, 0), tokens(run(g.get(), {"The"}, one), 0));
  EXPECT_EQ(tokens(all, 4),
            tokens(run(g.get(), {"The", "The", "The", "The", "row 3"}, one), 4));  // by its number
  Error error;
  const char* const prompt = "The";
  EXPECT_EQ(trl_generator_generate(g.get(), &prompt, nullptr, 1,
                                   host::config({{"generate.num_return_sequences", "2"}}).get(), nullptr,
                                   nullptr, nullptr, error),
            TRL_E_INVALID_CONFIG);
  EXPECT_EQ(error.key(), "generate.num_return_sequences");
}

TEST(Generate, BadPromptsAreRefused) {
  NEED_MODEL();
  const auto model = open_qwen2();
  const auto g = generator(model.get());
  Error error;
  trl_completions* completions = nullptr;
  const char* prompts[] = {"good", "\xff"};
  EXPECT_EQ(
      trl_generator_generate(g.get(), prompts, nullptr, 2, nullptr, nullptr, nullptr, &completions, error),
      TRL_E_FORMAT);
  EXPECT_TRUE(error.names("prompts[1]")) << error.message();
  prompts[1] = "";
  EXPECT_EQ(
      trl_generator_generate(g.get(), prompts, nullptr, 2, nullptr, nullptr, nullptr, &completions, error),
      TRL_E_INVALID_ARGUMENT);
  prompts[1] = nullptr;
  EXPECT_EQ(
      trl_generator_generate(g.get(), prompts, nullptr, 2, nullptr, nullptr, nullptr, &completions, error),
      TRL_E_INVALID_ARGUMENT);
  EXPECT_EQ(completions, nullptr);
}

TEST(Model, DescribesItself) {
  NEED_MODEL();
  const auto model = open_qwen2();
  const char* json = nullptr;
  ASSERT_EQ(trl_model_describe(model.get(), &json, nullptr), TRL_OK);
  const auto about = host::parse(json);
  EXPECT_EQ(about["config"]["model_type"], "qwen2");
  int64_t want = 0;
  for (const auto& [name, tensor] : host::read_safetensors(host::golden("models/qwen2/model.safetensors"))) {
    want += static_cast<int64_t>(tensor.values.size());
  }
  EXPECT_EQ(about["parameters"], want);
}

TEST(Runtime, DescribesTheEngine) {
  const auto runtime = host::runtime();
  const char* json = nullptr;
  Error error;
  ASSERT_EQ(trl_runtime_describe(runtime.get(), &json, error), TRL_OK) << error.message();
  const auto about = host::parse(json);
  EXPECT_GE(about["threads"], 1);
  EXPECT_TRUE(about["engine"].is_object());
}

}  // namespace
