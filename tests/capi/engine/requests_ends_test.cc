// How requests end: at end tokens and texts, without a number, and by a callback; those beside them go on.
#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <tuple>

#include "engine/requests.h"

namespace {

using host::add;
using host::Error;
using host::finish;
using host::generator_of;
using host::taken;

constexpr int32_t kPoison = 478;  // <think>

// A copy of a model in which the embedding of <think>, which the head does not share, is not a number.
struct PoisonedModel {
  PoisonedModel() {
    host::copy_model("models/qwen3", path);
    std::string bytes = host::read_file(path / "model.safetensors");
    uint64_t length = 0;
    std::memcpy(&length, bytes.data(), sizeof length);
    const host::Json header = host::parse(bytes.substr(8, length));
    const host::Json& embedding = header["model.embed_tokens.weight"];
    EXPECT_EQ(embedding["dtype"], "F32");
    const size_t row = embedding["shape"][1].get<size_t>() * sizeof(float);
    bytes.replace(8 + length + embedding["data_offsets"][0].get<size_t>() + kPoison * row, row, row, '\xff');
    host::write_file(path / "model.safetensors", bytes);
  }
  host::Scratch scratch;
  const std::filesystem::path path = scratch / "model";
};

const host::Settings kTwelve = {{"generate.max_new_tokens", "12"}, {"generate.suppress_tokens", "[478]"}};

// The completion of a prompt that is the only one.
nlohmann::json only(const std::string& model, std::string_view prompt, const host::Settings& options) {
  const auto opened = host::open_model(host::golden(model));
  const auto g = generator_of(opened.get());
  const size_t number = add(g.get(), prompt, options);
  finish(g.get());
  return taken(g.get(), number);
}

void expect_aborted(const nlohmann::json& completion, const std::string& why) {
  EXPECT_EQ(completion["finish_reason"], "abort");
  ASSERT_TRUE(completion.contains("error")) << completion;
  EXPECT_NE(completion["error"].get<std::string>().find(why), std::string::npos) << completion;
}

TEST(RequestEnds, LogitsThatAreNotNumbersEndTheirRequestAlone) {
  NEED_GOLDEN("models/qwen3/model.safetensors");
  const PoisonedModel poisoned;
  const auto model = host::open_model(poisoned.path);
  const auto g = generator_of(model.get());
  const host::Settings kept = host::with(kTwelve, {{"generate.keep", "true"}});
  const size_t before = add(g.get(), "row 3", kTwelve);
  EXPECT_EQ(trl_generator_step(g.get(), nullptr, nullptr, nullptr), TRL_OK);
  const size_t bad = add(g.get(), "row <think> 3", kept);
  const size_t after = add(g.get(), "The small kernel", kTwelve);
  finish(g.get());
  const nlohmann::json aborted = taken(g.get(), bad);
  expect_aborted(aborted, "the model's output is not a number");
  EXPECT_TRUE(aborted["token_ids"].empty());
  const int32_t more = 5;
  Error error;
  EXPECT_EQ(trl_generator_extend(g.get(), bad, nullptr, 0, &more, 1, nullptr, error), TRL_E_NOT_FOUND);
  EXPECT_EQ(taken(g.get(), before), only("models/qwen3", "row 3", kTwelve));
  EXPECT_EQ(taken(g.get(), after), only("models/qwen3", "The small kernel", kTwelve));
}

std::vector<nlohmann::json> generated(trl_model* model, const std::vector<const char*>& prompts,
                                      const host::Settings& options) {
  const auto g = generator_of(model);
  trl_completions* made = nullptr;
  Error error;
  EXPECT_EQ(trl_generator_generate(g.get(), prompts.data(), nullptr, prompts.size(),
                                   host::config(options).get(), nullptr, nullptr, &made, error),
            TRL_OK)
      << error.message();
  const host::Completions owned(made);
  std::vector<nlohmann::json> all;
  for (size_t i = 0; i < prompts.size(); ++i) {
    const char* const json = trl_completions_json(made, i, nullptr);
    all.push_back(json != nullptr ? nlohmann::json::parse(json) : nlohmann::json());
  }
  return all;
}

TEST(RequestEnds, OneOfACallThatHasNoNumbersLeavesTheOthers) {
  NEED_GOLDEN("models/qwen3/model.safetensors");
  const PoisonedModel poisoned;
  const auto model = host::open_model(poisoned.path);
  const auto all = generated(model.get(), {"row 3", "row <think> 3", "The small kernel"}, kTwelve);
  expect_aborted(all[1], "the model's output is not a number");
  EXPECT_EQ(all[0]["token_ids"], only("models/qwen3", "row 3", kTwelve)["token_ids"]);
  EXPECT_EQ(all[2]["token_ids"], only("models/qwen3", "The small kernel", kTwelve)["token_ids"]);
}

TEST(RequestEnds, OneOfACallThatOutgrowsTheCacheLeavesTheOthers) {
  NEED_GOLDEN("models/qwen2/model.safetensors");
  const auto model = host::open_model(host::golden("models/qwen2"), {{"kv_cache_memory", "32768"}});
  const std::string longer(60, '7');  // as many tokens; a block has 64
  const host::Settings twelve = {{"generate.max_new_tokens", "12"}, {"generate.ignore_eos", "true"}};
  const auto all = generated(model.get(), {longer.c_str(), "row 3"}, twelve);
  expect_aborted(all[0], "kv_cache_memory");
  EXPECT_EQ(all[0]["token_ids"].size(), 5u);
  EXPECT_EQ(all[1]["finish_reason"], "length");
  EXPECT_EQ(all[1]["token_ids"], only("models/qwen2", "row 3", twelve)["token_ids"]);
}

// A step without memory for its keys, its rows or its logits is computed again by the next call.
TEST(RequestEnds, MemoryThatRunsOutStopsAStepAndNoRequest) {
  NEED_GOLDEN("models/qwen2/model.safetensors");
  const host::Runtime runtime = host::runtime();
  const auto model = host::open_model(host::golden("models/qwen2"));
  const auto g = generator_of(model.get());
  const std::string longer(200, '7');
  Error error;
  const auto step_without_memory = [&] {
    int64_t now = 0;
    EXPECT_EQ(trl_runtime_memory(runtime.get(), nullptr, &now, nullptr, error), TRL_OK) << error.message();
    EXPECT_EQ(trl_runtime_set_memory_limit(runtime.get(), now, error), TRL_OK) << error.message();
    const trl_status status = trl_generator_step(g.get(), nullptr, nullptr, error);
    EXPECT_EQ(trl_runtime_set_memory_limit(runtime.get(), 0, nullptr), TRL_OK);
    return status;
  };
  const size_t first = add(g.get(), "row 3", kTwelve);
  EXPECT_EQ(step_without_memory(), TRL_E_OUT_OF_MEMORY);
  EXPECT_TRUE(error.names("runtime.host_memory_limit")) << error.message();
  for (int i = 0; i < 3; ++i) EXPECT_EQ(trl_generator_step(g.get(), nullptr, nullptr, nullptr), TRL_OK);
  const size_t second = add(g.get(), longer, kTwelve);
  const trl_status status = step_without_memory();  // what the process keeps may be enough
  EXPECT_TRUE(status == TRL_OK || status == TRL_E_OUT_OF_MEMORY) << error.message();
  finish(g.get());
  EXPECT_EQ(taken(g.get(), first), only("models/qwen2", "row 3", kTwelve));
  EXPECT_EQ(taken(g.get(), second), only("models/qwen2", longer, kTwelve));
}

TEST(RequestEnds, EachReasonHasItsName) {
  NEED_GOLDEN("models/qwen2/model.safetensors");
  const host::Settings twenty = {{"generate.max_new_tokens", "20"}};
  const nlohmann::json whole = only("models/qwen2", "row 3", twenty);
  const std::vector<int32_t> ids = whole["token_ids"];
  const std::string text = whole["text"];
  ASSERT_EQ(ids.size(), 20u);
  ASSERT_GT(text.size(), 6u);
  const auto model = host::open_model(host::golden("models/qwen2"));
  const auto g = generator_of(model.get());
  const nlohmann::json stop = nlohmann::json::array({text.substr(3, 2)});
  const auto at_id = host::with(twenty, {{"generate.stop_token_ids", std::to_string(ids[5])}});
  const auto at_text = host::with(twenty, {{"generate.stop", stop.dump()}});
  const size_t first = add(g.get(), "row 3", at_id), second = add(g.get(), "row 3", at_text),
               third = add(g.get(), "row 3", twenty);
  finish(g.get());
  const nlohmann::json ended = taken(g.get(), first), cut = taken(g.get(), second);
  EXPECT_EQ(ended["finish_reason"], "stop");
  const auto end = std::find(ids.begin(), ids.end(), ids[5]);
  EXPECT_EQ(ended["token_ids"], nlohmann::json(std::vector<int32_t>(ids.begin(), end + 1)));
  EXPECT_EQ(cut["finish_reason"], "stop_string");
  EXPECT_EQ(cut["text"], text.substr(0, text.find(text.substr(3, 2))));
  EXPECT_EQ(taken(g.get(), third), whole);
  EXPECT_EQ(whole["finish_reason"], "length");
}

TEST(RequestEnds, AStopTextMayBeASpecialToken) {
  NEED_GOLDEN("models/qwen2/model.safetensors");
  // "&", then <|im_start|>, then other tokens.
  const host::Settings six = {{"generate.max_new_tokens", "6"},
                              {"generate.no_repeat_ngram_size", "1"},
                              {"generate.logit_bias", "{5: 2000, 474: 1000}"},
                              {"generate.suppress_tokens", "[475]"}};
  const nlohmann::json two = {5, 474}, whole = only("models/qwen2", "row 3", six);
  ASSERT_EQ(whole["token_ids"].size(), 6u);
  ASSERT_EQ(whole["token_ids"][0], 5);
  ASSERT_EQ(whole["token_ids"][1], 474);
  EXPECT_EQ(whole["text"].get<std::string>().substr(0, 1), "&");
  EXPECT_EQ(whole["text"].get<std::string>().find("im_start"), std::string::npos);
  const host::Settings ends = host::with(six, {{"generate.eos_token_id", "474"}});
  for (const auto& [stop, text, also_ends] : {std::tuple{R"(["<|im_start|>"])", "&", "stop"},
                                              {R"(["im_start"])", "&", "stop"},
                                              {R"(["&<|im_start|>"])", "", "stop_string"}}) {
    const auto stopped = [&, given = std::string(stop)](const host::Settings& options) {
      return only("models/qwen2", "row 3", host::with(options, {{"generate.stop", given}}));
    };
    const nlohmann::json got = stopped(six), end = stopped(ends);
    EXPECT_EQ(got["token_ids"], two) << stop;
    EXPECT_EQ(got["text"], text) << stop;
    EXPECT_EQ(got["finish_reason"], "stop_string") << stop;
    EXPECT_EQ(end["token_ids"], two) << stop;
    EXPECT_EQ(end["text"], text) << stop;
    EXPECT_EQ(end["finish_reason"], also_ends) << stop;
  }
}

// Throws at the second token of one completion.
struct Failing {
  size_t number = 0;
  int tokens = 0;
  static int32_t on_token(void* data, size_t number, int32_t, const char*, size_t, double) {
    auto* self = static_cast<Failing*>(data);
    if (number == self->number && ++self->tokens == 2) throw std::runtime_error("the screen is gone");
    return 0;
  }
};

TEST(RequestEnds, ACallbackThatFailsEndsItsCompletionAlone) {
  NEED_GOLDEN("models/qwen2/model.safetensors");
  const auto model = host::open_model(host::golden("models/qwen2"));
  const auto g = generator_of(model.get());
  const host::Settings some = {{"generate.max_new_tokens", "12"}};
  const size_t before = add(g.get(), "The small kernel", some);
  Failing failing{add(g.get(), "row 3", some)};
  const size_t after = add(g.get(), "A", some);
  Error error;
  int failures = 0;
  for (trl_status status = TRL_OK; status != TRL_END;) {
    status = trl_generator_step(g.get(), Failing::on_token, &failing, error);
    if (status >= TRL_OK) continue;
    ASSERT_EQ(status, TRL_E_CALLBACK) << error.message();
    EXPECT_EQ(error.message(), "the host's token callback threw: the screen is gone");
    ++failures;
  }
  EXPECT_EQ(failures, 1);
  const nlohmann::json cut = taken(g.get(), failing.number);
  EXPECT_EQ(cut["finish_reason"], "cancelled");
  EXPECT_EQ(cut["token_ids"].size(), 2u);
  EXPECT_EQ(taken(g.get(), before), only("models/qwen2", "The small kernel", some));
  EXPECT_EQ(taken(g.get(), after), only("models/qwen2", "A", some));
}

// Calls everything that changes the generator which calls it.
struct Meddling {
  trl_generator* generator;
  int calls = 0;
  static int32_t on_token(void* data, size_t number, int32_t id, const char*, size_t, double) {
    auto* self = static_cast<Meddling*>(data);
    trl_generator* const g = self->generator;
    size_t first = 0;
    trl_completions* made = nullptr;
    EXPECT_EQ(trl_generator_add(g, "row", 3, nullptr, 0, nullptr, &first, nullptr), TRL_E_BUSY);
    EXPECT_EQ(trl_generator_step(g, nullptr, nullptr, nullptr), TRL_E_BUSY);
    EXPECT_EQ(trl_generator_extend(g, number, nullptr, 0, &id, 1, nullptr, nullptr), TRL_E_BUSY);
    EXPECT_EQ(trl_generator_cancel(g, 0, 2, nullptr), TRL_E_BUSY);
    EXPECT_EQ(trl_generator_take(g, number, 1, &made, nullptr), TRL_E_BUSY);
    EXPECT_EQ(trl_generator_release_memory(g, nullptr), TRL_E_BUSY);
    EXPECT_EQ(made, nullptr);
    ++self->calls;
    return 0;
  }
};

TEST(RequestEnds, ACallbackThatCallsItsGeneratorChangesNothing) {
  NEED_GOLDEN("models/qwen2/model.safetensors");
  const auto model = host::open_model(host::golden("models/qwen2"));
  const auto g = generator_of(model.get());
  const host::Settings few = {{"generate.max_new_tokens", "6"}, {"generate.ignore_eos", "true"}};
  const size_t first = add(g.get(), "row 3", few), second = add(g.get(), "The small kernel", few);
  Meddling meddling{g.get()};
  while (trl_generator_step(g.get(), Meddling::on_token, &meddling, nullptr) == TRL_OK) {
  }
  EXPECT_EQ(meddling.calls, 12);
  EXPECT_EQ(taken(g.get(), first), only("models/qwen2", "row 3", few));
  EXPECT_EQ(taken(g.get(), second), only("models/qwen2", "The small kernel", few));
}

}  // namespace
