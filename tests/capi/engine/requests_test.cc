// Requests to a generator, step by step: they join and leave, are cancelled, continued, and give memory back.
#include <cstdint>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "engine/requests.h"
#include "engine/rewarded.h"

namespace {

using host::add;
using host::Error;
using host::finish;
using host::generator_of;
using host::Json;
using host::taken;

#define NEED_MODEL() NEED_GOLDEN("models/qwen2/model.safetensors")

nlohmann::json alone(const std::string& prompt, const host::Settings& options) {
  const auto model = host::open_model(host::golden("models/qwen2"));
  const auto g = generator_of(model.get());
  const size_t number = add(g.get(), prompt, options);
  finish(g.get());
  return taken(g.get(), number);
}

TEST(Requests, AreCompletedAsIfAlone) {
  NEED_MODEL();
  const auto model = host::open_model(host::golden("models/qwen2"));
  const auto g = generator_of(model.get());
  const std::vector<std::string> prompts = {"The small kernel", "A", "row 3", "What does the"};
  std::vector<size_t> numbers;
  for (size_t i = 0; i < prompts.size(); ++i) {  // each joins while others run, with options of its own
    numbers.push_back(add(g.get(), prompts[i],
                          {{"generate.max_new_tokens", std::to_string(8 + 5 * i)},
                           {"generate.temperature", i % 2 == 0 ? "0" : "1"},
                           {"generate.seed", std::to_string(7 + i)}}));
    EXPECT_EQ(trl_generator_step(g.get(), nullptr, nullptr, nullptr), TRL_OK);
  }
  finish(g.get());
  for (size_t i = 0; i < prompts.size(); ++i) {
    const nlohmann::json one = taken(g.get(), numbers[i]);
    EXPECT_EQ(one, alone(prompts[i], {{"generate.max_new_tokens", std::to_string(8 + 5 * i)},
                                      {"generate.temperature", i % 2 == 0 ? "0" : "1"},
                                      {"generate.seed", std::to_string(7 + i)}}));
    EXPECT_EQ(one["finish_reason"], "length");
    trl_completions* again = nullptr;
    Error error;
    EXPECT_EQ(trl_generator_take(g.get(), numbers[i], 1, &again, error), TRL_E_NOT_FOUND);
    EXPECT_EQ(again, nullptr);
  }
}

TEST(Requests, TakeIdsAndText) {
  NEED_MODEL();
  const auto model = host::open_model(host::golden("models/qwen2"));
  const auto g = generator_of(model.get());
  const std::vector<int32_t> ids = {5, 6, 7};
  size_t first = 0;
  Error error;
  const auto few = host::config({{"generate.max_new_tokens", "4"}});
  ASSERT_EQ(trl_generator_add(g.get(), nullptr, 0, ids.data(), ids.size(), few.get(), &first, error), TRL_OK)
      << error.message();
  finish(g.get());
  EXPECT_EQ(taken(g.get(), first)["token_ids"].size(), 4u);
  EXPECT_EQ(trl_generator_add(g.get(), "a", 1, ids.data(), ids.size(), few.get(), &first, error),
            TRL_E_INVALID_ARGUMENT);
  EXPECT_EQ(trl_generator_add(g.get(), nullptr, 0, nullptr, 0, few.get(), &first, error),
            TRL_E_INVALID_ARGUMENT);
  const int32_t strange = 1 << 30;
  EXPECT_EQ(trl_generator_add(g.get(), nullptr, 0, &strange, 1, few.get(), &first, error),
            TRL_E_INVALID_ARGUMENT);
  EXPECT_NE(error.message().find(std::to_string(strange)), std::string::npos) << error.message();
}

// A negative number in a size_t is more than any array has.
TEST(Requests, CountsOfMoreThanMemoryAreRefused) {
  NEED_MODEL();
  const auto model = host::open_model(host::golden("models/qwen2"));
  const auto g = generator_of(model.get());
  Error error;
  size_t first = 7;
  const int32_t id = 5;
  const auto refused = [&](trl_status status, std::string_view name) {
    EXPECT_EQ(status, TRL_E_INVALID_ARGUMENT) << error.message();
    EXPECT_TRUE(error.names(name) && error.names(std::to_string(SIZE_MAX))) << error.message();
  };
  refused(trl_generator_add(g.get(), nullptr, 0, &id, SIZE_MAX, nullptr, &first, error), "ids");
  refused(trl_generator_add(g.get(), "a", SIZE_MAX, nullptr, 0, nullptr, &first, error), "text");
  const char* const prompt = "a";
  const size_t length = SIZE_MAX;
  trl_completions* made = nullptr;
  refused(
      trl_generator_generate(g.get(), &prompt, nullptr, SIZE_MAX, nullptr, nullptr, nullptr, &made, error),
      "prompts");
  refused(trl_generator_generate(g.get(), &prompt, &length, 1, nullptr, nullptr, nullptr, &made, error),
          "prompts[0]");
  EXPECT_EQ(made, nullptr);
  float score = 0;
  refused(trl_model_score(model.get(), &prompt, nullptr, SIZE_MAX, 0, nullptr, &score, error), "texts");
}

TEST(Requests, ACancelledOneLeavesTheOthers) {
  NEED_MODEL();
  const auto model = host::open_model(host::golden("models/qwen2"));
  const auto g = generator_of(model.get());
  const host::Settings some = {{"generate.max_new_tokens", "12"}};
  const size_t gone = add(g.get(), "row 3", some), stays = add(g.get(), "The small kernel", some);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(trl_generator_step(g.get(), nullptr, nullptr, nullptr), TRL_OK);
  EXPECT_EQ(taken(g.get(), gone)["finish_reason"], nullptr);
  EXPECT_EQ(trl_generator_cancel(g.get(), gone, 1, nullptr), TRL_OK);
  EXPECT_EQ(trl_generator_cancel(g.get(), 1000, 5, nullptr), TRL_OK);
  finish(g.get());
  const nlohmann::json cut = taken(g.get(), gone);
  EXPECT_EQ(cut["finish_reason"], "cancelled");
  EXPECT_EQ(cut["token_ids"].size(), 3u);
  EXPECT_EQ(taken(g.get(), stays), alone("The small kernel", some));
}

// A range may reach beyond the completions, however far; one with a gap is not taken.
TEST(Requests, AreCancelledAndTakenInRanges) {
  NEED_MODEL();
  const auto model = host::open_model(host::golden("models/qwen2"));
  const auto g = generator_of(model.get());
  const host::Settings some = {{"generate.max_new_tokens", "12"}};
  const size_t first = add(g.get(), "row 3", some), second = add(g.get(), "The small kernel", some);
  EXPECT_EQ(second, first + 1);
  EXPECT_EQ(trl_generator_step(g.get(), nullptr, nullptr, nullptr), TRL_OK);
  EXPECT_EQ(trl_generator_cancel(g.get(), SIZE_MAX, SIZE_MAX, nullptr), TRL_OK);
  EXPECT_EQ(trl_generator_cancel(g.get(), second, SIZE_MAX, nullptr), TRL_OK);
  finish(g.get());
  Error error;
  trl_completions* made = nullptr;
  for (const size_t count : {size_t{3}, SIZE_MAX / 8, SIZE_MAX}) {
    EXPECT_EQ(trl_generator_take(g.get(), first, count, &made, error), TRL_E_NOT_FOUND);
    EXPECT_EQ(made, nullptr);
    EXPECT_TRUE(error.names("completion " + std::to_string(first + 2))) << error.message();
  }
  EXPECT_EQ(trl_generator_take(g.get(), SIZE_MAX, 1, &made, error), TRL_E_NOT_FOUND);
  EXPECT_EQ(trl_generator_extend(g.get(), SIZE_MAX, "a", 1, nullptr, 0, nullptr, error), TRL_E_NOT_FOUND);
  ASSERT_EQ(trl_generator_take(g.get(), first, 2, &made, error), TRL_OK) << error.message();
  const host::Completions both(made);
  EXPECT_STREQ(trl_completions_finish_reason(made, 0), "length");
  EXPECT_STREQ(trl_completions_finish_reason(made, 1), "cancelled");
  size_t count = 0;
  trl_completions_tokens(made, 1, &count);
  EXPECT_EQ(count, 1u);
}

TEST(Requests, AKeptOneGoesOn) {
  NEED_MODEL();
  const auto model = host::open_model(host::golden("models/qwen2"));
  const auto g = generator_of(model.get());
  const host::Settings kept = {{"generate.max_new_tokens", "6"}, {"generate.keep", "true"}};
  const size_t number = add(g.get(), "row 3", kept);
  Error error;
  const std::vector<int32_t> more = {9, 8, 7};
  EXPECT_EQ(trl_generator_extend(g.get(), number, nullptr, 0, more.data(), more.size(), nullptr, error),
            TRL_E_INVALID_ARGUMENT);  // it has not ended
  finish(g.get());
  const nlohmann::json first = taken(g.get(), number);
  ASSERT_EQ(trl_generator_extend(g.get(), number, nullptr, 0, more.data(), more.size(),
                                 host::config({{"generate.max_new_tokens", "5"}}).get(), error),
            TRL_OK)
      << error.message();
  finish(g.get());
  const nlohmann::json second = taken(g.get(), number);
  EXPECT_EQ(second["token_ids"].size(), 5u);
  // The whole conversation as a prompt has the same continuation.
  trl_tokenizer* made = nullptr;
  ASSERT_EQ(trl_tokenizer_open(nullptr, host::golden("models/qwen2").c_str(), nullptr, &made, error), TRL_OK);
  const host::Tokenizer tokenizer(made);
  std::vector<int32_t> ids(64);
  size_t count = 0;
  ASSERT_EQ(trl_tokenizer_encode(made, "row 3", 5, 1, 0, ids.data(), ids.size(), &count, error), TRL_OK)
      << error.message();
  ids.resize(count);
  for (const int32_t id : first["token_ids"]) ids.push_back(id);
  ids.insert(ids.end(), more.begin(), more.end());
  size_t whole = 0;
  ASSERT_EQ(trl_generator_add(g.get(), nullptr, 0, ids.data(), ids.size(),
                              host::config({{"generate.max_new_tokens", "5"}}).get(), &whole, error),
            TRL_OK);
  finish(g.get());
  EXPECT_EQ(taken(g.get(), whole)["token_ids"], second["token_ids"]);
  EXPECT_EQ(trl_generator_cancel(g.get(), number, 1, error), TRL_OK);
  EXPECT_EQ(trl_generator_extend(g.get(), number, nullptr, 0, more.data(), more.size(), nullptr, error),
            TRL_E_NOT_FOUND);
}

TEST(Requests, GiveTheirMemoryBackAndGoOn) {
  NEED_MODEL();
  const auto model = host::open_model(host::golden("models/qwen2"));
  const auto g = generator_of(model.get()), other = generator_of(model.get());
  const host::Settings some = {{"generate.max_new_tokens", "12"}};
  const size_t number = add(g.get(), "The small kernel", some);
  const size_t beside = add(other.get(), "row 3", some);
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(trl_generator_step(g.get(), nullptr, nullptr, nullptr), TRL_OK);
    EXPECT_EQ(trl_generator_step(other.get(), nullptr, nullptr, nullptr), TRL_OK);
    EXPECT_EQ(trl_generator_release_memory(g.get(), nullptr), TRL_OK);
  }
  finish(g.get());
  finish(other.get());
  EXPECT_EQ(taken(g.get(), number), alone("The small kernel", some));
  EXPECT_EQ(taken(other.get(), beside), alone("row 3", some));
}

// The copies of an opened model's weights go back, too, and are made anew.
TEST(Requests, GiveCopiesOfWeightsBack) {
  NEED_MODEL();
  const auto model = host::open_model(host::golden("models/qwen2"), {{"generation_dtype", "int8"}});
  const auto runtime = host::runtime();
  const auto weights = [&] {
    int64_t now = 0;
    EXPECT_EQ(trl_runtime_memory(runtime.get(), "weights", &now, nullptr, nullptr), TRL_OK);
    return now;
  };
  const int64_t before = weights();
  const auto g = generator_of(model.get());
  std::vector<Json> texts;
  for (int i = 0; i < 2; ++i) {
    const size_t number = add(g.get(), "The small kernel", {{"generate.max_new_tokens", "8"}});
    finish(g.get());
    EXPECT_GT(weights(), before);
    texts.push_back(taken(g.get(), number)["token_ids"]);
    EXPECT_EQ(trl_generator_release_memory(g.get(), nullptr), TRL_OK);
    EXPECT_EQ(weights(), before);
  }
  EXPECT_EQ(texts[0], texts[1]);
}

// Two generators of a model, whose cache has room for one sequence of each length.
TEST(Requests, OfSeveralGeneratorsShareOnePool) {
  NEED_MODEL();
  const host::Settings narrow = {{"kv_cache_memory", "32768"}};  // one block
  const auto model = host::open_model(host::golden("models/qwen2"), narrow);
  const auto g = generator_of(model.get()), other = generator_of(model.get());
  const host::Settings some = {{"generate.max_new_tokens", "12"}};
  const size_t a = add(g.get(), "The small kernel", some), b = add(other.get(), "row 3", some);
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(trl_generator_step(g.get(), nullptr, nullptr, nullptr), TRL_OK);
    EXPECT_EQ(trl_generator_step(other.get(), nullptr, nullptr, nullptr), TRL_OK);
  }
  finish(other.get());
  finish(g.get());
  EXPECT_EQ(taken(g.get(), a), alone("The small kernel", some));
  EXPECT_EQ(taken(other.get(), b), alone("row 3", some));
  size_t first = 0;
  Error error;
  const std::vector<int32_t> longer(70, 5);
  EXPECT_EQ(trl_generator_add(g.get(), nullptr, 0, longer.data(), longer.size(), nullptr, &first, error),
            TRL_E_OUT_OF_MEMORY);
  EXPECT_NE(error.message().find("kv_cache_memory"), std::string::npos) << error.message();
}

struct Nested {
  trl_generator* generator;
  trl_status inside = TRL_OK;
  static int32_t on_token(void* data, size_t, int32_t, const char*, size_t, double) {
    auto* self = static_cast<Nested*>(data);
    self->inside = trl_generator_step(self->generator, nullptr, nullptr, nullptr);
    return 0;
  }
};

TEST(Requests, ACallbackCannotCallItsGenerator) {
  NEED_MODEL();
  const auto model = host::open_model(host::golden("models/qwen2"));
  const auto g = generator_of(model.get());
  const host::Settings some = {{"generate.max_new_tokens", "3"}};
  const size_t number = add(g.get(), "row 3", some);
  Nested nested{g.get()};
  EXPECT_EQ(trl_generator_step(g.get(), Nested::on_token, &nested, nullptr), TRL_OK);
  EXPECT_LT(nested.inside, 0);
  finish(g.get());
  EXPECT_EQ(taken(g.get(), number), alone("row 3", some));
}

struct Destroying {
  trl_generator* other;
  static int32_t on_token(void* data, size_t, int32_t, const char*, size_t, double) {
    auto* self = static_cast<Destroying*>(data);
    trl_generator_destroy(std::exchange(self->other, nullptr));
    return 0;
  }
};

TEST(Requests, ACallbackMayDestroyAnotherGeneratorOfTheModel) {
  NEED_MODEL();
  const auto model = host::open_model(host::golden("models/qwen2"));
  const auto g = generator_of(model.get());
  const host::Settings some = {{"generate.max_new_tokens", "12"}};
  Destroying destroying{nullptr};
  ASSERT_EQ(trl_generator_create(model.get(), nullptr, &destroying.other, nullptr), TRL_OK);
  add(destroying.other, "The small kernel", some);
  EXPECT_EQ(trl_generator_step(destroying.other, nullptr, nullptr, nullptr), TRL_OK);
  const size_t number = add(g.get(), "row 3", some);
  EXPECT_EQ(trl_generator_step(g.get(), Destroying::on_token, &destroying, nullptr), TRL_OK);
  EXPECT_EQ(destroying.other, nullptr);
  finish(g.get());
  EXPECT_EQ(taken(g.get(), number), alone("row 3", some));
}

// The last generator of a cache may go while another one looks for it.
TEST(Requests, AGeneratorMayBeginWhileAnotherThreadDestroysOne) {
  NEED_MODEL();
  const auto model = host::open_model(host::golden("models/qwen2"));
  const host::Settings some = {{"generate.max_new_tokens", "1"}};
  auto last = generator_of(model.get());
  add(last.get(), "row 3", some);
  for (int i = 0; i < 200; ++i) {
    auto next = generator_of(model.get());
    std::thread destroying([gone = std::move(last)]() mutable { gone.reset(); });
    add(next.get(), "row 3", some);
    destroying.join();
    last = std::move(next);
  }
  finish(last.get());
}

TEST(Requests, ThePromptThatCannotBeHeldIsNamed) {
  NEED_MODEL();
  const auto model = host::open_model(host::golden("models/qwen2"), {{"kv_cache_memory", "32768"}});
  const auto g = generator_of(model.get());
  const std::string longer(100, '7');
  const char* const prompts[] = {"a", longer.c_str()};
  trl_completions* made = nullptr;
  Error error;
  EXPECT_EQ(trl_generator_generate(g.get(), prompts, nullptr, 2, nullptr, nullptr, nullptr, &made, error),
            TRL_E_OUT_OF_MEMORY);
  EXPECT_EQ(error.message().rfind("prompt 1, ", 0), 0u) << error.message();
  EXPECT_EQ(made, nullptr);
}

// The status of a request with this many ids, of which three more tokens are asked.
trl_status add_ids(trl_generator* g, size_t count, size_t& first, trl_error** error) {
  const std::vector<int32_t> ids(count, 5);
  const auto few = host::config(
      {{"generate.max_new_tokens", "3"}, {"generate.ignore_eos", "true"}, {"generate.keep", "true"}});
  return trl_generator_add(g, nullptr, 0, ids.data(), ids.size(), few.get(), &first, error);
}

TEST(Requests, APromptBeyondThePositionsIsRefused) {
  NEED_MODEL();
  const auto model = host::open_model(host::golden("models/qwen2"));
  const auto g = generator_of(model.get());
  const host::Settings some = {{"generate.max_new_tokens", "12"}};
  const size_t beside = add(g.get(), "row 3", some);
  EXPECT_EQ(trl_generator_step(g.get(), nullptr, nullptr, nullptr), TRL_OK);
  Error error;
  size_t first = 0;
  EXPECT_EQ(add_ids(g.get(), 257, first, error), TRL_E_INVALID_ARGUMENT);
  EXPECT_TRUE(error.names("the prompt has 257 tokens, and the model has 256 positions")) << error.message();
  ASSERT_EQ(add_ids(g.get(), 256, first, error), TRL_OK) << error.message();
  finish(g.get());
  EXPECT_EQ(taken(g.get(), beside), alone("row 3", some));
  const nlohmann::json beyond = taken(g.get(), first);
  EXPECT_EQ(beyond["token_ids"].size(), 3u);  // new tokens may go beyond them
  EXPECT_EQ(beyond["finish_reason"], "length");
  const int32_t more = 5;
  EXPECT_EQ(trl_generator_extend(g.get(), first, nullptr, 0, &more, 1, nullptr, error),
            TRL_E_INVALID_ARGUMENT);
  EXPECT_TRUE(error.names("260 tokens, and the model has 256")) << error.message();
  const std::string longer(300, '7');  // as many tokens
  const char* const prompts[] = {"a", longer.c_str()};
  EXPECT_EQ(trl_generator_generate(g.get(), prompts, nullptr, 2, nullptr, nullptr, nullptr, nullptr, error),
            TRL_E_INVALID_ARGUMENT);
  EXPECT_TRUE(error.names("prompt 1, the prompt has 300 tokens")) << error.message();
}

TEST(Requests, IdsAreNotPutIntoAChatTemplate) {
  NEED_MODEL();
  const auto model = host::open_model(host::golden("models/qwen2"));
  const auto g = generator_of(model.get());
  const std::vector<int32_t> ids = {5, 6, 7};
  size_t first = 0;
  Error error;
  const auto add_with = [&](const host::Settings& options) {
    return trl_generator_add(g.get(), nullptr, 0, ids.data(), ids.size(), host::config(options).get(), &first,
                             error);
  };
  for (const host::Settings& given : {host::Settings{{"generate.chat", "true"}},
                                      {{"generate.system", "Be brief."}},
                                      {{"generate.chat", "true"}, {"generate.system", "Be brief."}}}) {
    EXPECT_EQ(add_with(given), TRL_E_INVALID_CONFIG);
    EXPECT_EQ(error.key(), given[0].first);
    EXPECT_TRUE(error.names("ids are taken as they are")) << error.message();
  }
  EXPECT_EQ(add_with({{"generate.chat", "false"}, {"generate.system", "null"}}), TRL_OK) << error.message();
  // To continue with ids, only generate.max_new_tokens is read.
  const host::Settings kept = {
      {"generate.chat", "true"}, {"generate.keep", "true"}, {"generate.max_new_tokens", "2"}};
  const size_t number = add(g.get(), "row 3", kept);
  finish(g.get());
  EXPECT_EQ(trl_generator_extend(g.get(), number, nullptr, 0, ids.data(), ids.size(),
                                 host::config(kept).get(), error),
            TRL_OK)
      << error.message();
}

// A run whose long prompts are counted completes them, and so do generators for its rollouts.
TEST(Requests, OfARunThatWritesCompletionsMayGoBeyondThePositions) {
  NEED_MODEL();
  const host::Scratch scratch;
  const host::Rewarded online(host::grpo(scratch / "online"), host::reward_all);
  const auto rows = host::rows("{\"text\": \"one two three\"}\n");
  const auto offline = host::trainer(host::tiny(scratch / "offline"), rows.get());
  for (const auto& [trainer, status] :
       {std::pair{online.trainer.get(), TRL_OK}, std::pair{offline.get(), TRL_E_INVALID_ARGUMENT}}) {
    Error error;
    const host::Generator g = host::generator_of(trainer);
    size_t first = 0;
    EXPECT_EQ(add_ids(g.get(), 257, first, error), status) << error.message();
    finish(g.get());
  }
}

TEST(Requests, KeysAndValuesOfOneBlockMustFit) {
  NEED_MODEL();
  const auto model = host::open_model(host::golden("models/qwen2"), {{"kv_cache_memory", "32767"}});
  const auto g = generator_of(model.get());
  Error error;
  size_t first = 0;
  EXPECT_EQ(trl_generator_add(g.get(), "row", 3, nullptr, 0, nullptr, &first, error), TRL_E_INVALID_CONFIG);
  EXPECT_NE(error.message().find("one block of 64 tokens take 32768"), std::string::npos) << error.message();
}

TEST(Requests, AnUnknownAdapterIsRefused) {
  NEED_MODEL();
  const auto model = host::open_model(host::golden("models/qwen2"));
  const auto g = generator_of(model.get());
  Error error;
  size_t first = 0;
  const auto unknown = host::config({{"generate.adapter", "nobody"}});
  EXPECT_EQ(trl_generator_add(g.get(), "row", 3, nullptr, 0, unknown.get(), &first, error), TRL_E_NOT_FOUND);
  EXPECT_EQ(error.message(), "generate.adapter: the model has no adapter \"nobody\"; it has none");
  EXPECT_EQ(error.key(), "generate.adapter");
  EXPECT_EQ(trl_generator_step(g.get(), nullptr, nullptr, error), TRL_END);
}

}  // namespace
