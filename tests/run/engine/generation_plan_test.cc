// What a plan says of generation, and what generation takes.
#include <algorithm>
#include <atomic>
#include <thread>

#include "engine/rewarded.h"

namespace {

using host::Error;
using host::Json;
using host::plan;
using host::Settings;

#define NEED_MODEL() NEED_GOLDEN("models/qwen2/model.safetensors")

Settings small(const host::Scratch& scratch, const Settings& more = {}) {
  const Settings own = {{"max_length", "16"},
                        {"per_device_train_batch_size", "1"},
                        {"max_steps", "2"},
                        {"save_strategy", "no"},
                        {"estimate.compare", "[]"}};
  return host::with(host::tiny(scratch / "out"), host::with(own, more));
}

void refused(const Settings& settings, const char* key, const char* why, trl_dataset* rows = nullptr) {
  const auto runtime = host::runtime();
  const char* json = nullptr;
  Error error;
  EXPECT_EQ(trl_trainer_plan(runtime.get(), host::config(settings).get(), rows, &json, nullptr, error),
            TRL_E_INVALID_CONFIG);
  EXPECT_EQ(error.key(), key);
  EXPECT_TRUE(error.names(why)) << error.message();
}

TEST(GenerationPlan, CountsAPromptOnceForItsCompletions) {
  NEED_MODEL();
  const host::Scratch scratch;
  std::string text;
  const Json without = plan(small(scratch));
  EXPECT_FALSE(without.contains("generation"));
  const Settings asked = small(scratch, {{"estimate.prompt_tokens", "130"},
                                         {"estimate.prompts", "3"},
                                         {"generate.num_return_sequences", "4"},
                                         {"generate.max_new_tokens", "30"},
                                         {"kv_cache_memory", "5MB"}});
  const Json all = plan(asked, nullptr, &text).at("generation");
  const int64_t block = all.at("kv_block_bytes");
  EXPECT_EQ(all.at("kv_blocks"), 3 * (2 + 4));  // two full blocks of a prompt, one of each completion
  EXPECT_EQ(all.at("kv_limit_bytes"), 5'000'000 / block * block);
  EXPECT_GE(all.at("kv_bytes").get<int64_t>(), 18 * block);
  const int64_t blocks = 5'000'000 / block;
  EXPECT_EQ(all.at("sequences_that_fit"), blocks / 6 * 4 + std::max<int64_t>(0, blocks % 6 - 2));
  EXPECT_EQ(all.at("weights_bytes"), 0);
  EXPECT_EQ(all.at("copies_bytes"), 0);
  EXPECT_GE(all.at("logits_bytes").get<int64_t>(), 12 * 512 * 4);
  EXPECT_NE(text.find("3 prompts of 130 tokens, 4 completions"), std::string::npos) << text;
  const auto model = host::open_model(host::golden("models/qwen2"));
  const char* tensors = nullptr;
  ASSERT_EQ(trl_model_get_tensors(model.get(), &tensors, nullptr), TRL_OK);
  int64_t numbers = 0;
  for (const Json& one : host::parse(tensors)) {
    int64_t count = 1;
    for (const Json& extent : one.at("shape")) count *= extent.get<int64_t>();
    numbers += (4 * count + 63) / 64 * 64;
  }
  EXPECT_EQ(all.at("update_bytes"), 2 * numbers);
  EXPECT_NE(text.find("a server takes "), std::string::npos) << text;
  const Json int8 =
      plan(host::with(asked, {{"kv_cache_dtype", "int8"}, {"generation_dtype", "int8"}})).at("generation");
  EXPECT_LT(int8.at("kv_block_bytes").get<int64_t>(), block);
  EXPECT_GT(int8.at("copies_bytes").get<int64_t>(), 0);
  const Json layers =
      plan(host::with(asked, {{"generation_dtype", "int8"}, {"generation_dtype_head", "false"}}))
          .at("generation");
  EXPECT_LT(layers.at("copies_bytes"), int8.at("copies_bytes"));
}

TEST(GenerationPlan, SaysWhatIsMissing) {
  NEED_MODEL();
  const host::Scratch scratch;
  refused(small(scratch, {{"estimate.prompts", "3"}}), "estimate.prompts", "needs estimate.prompt_tokens");
  refused(small(scratch, {{"estimate.prompt_tokens", "200"}, {"kv_cache_memory", "32768"}}),
          "kv_cache_memory", "one sequence of 456 tokens");
  refused(small(scratch, {{"estimate.prompt_tokens", "200"}, {"kv_cache_memory", "32768"}}),
          "kv_cache_memory", "(estimate.prompt_tokens, generate.max_new_tokens)");
}

TEST(GenerationPlan, NamesTheKeyOfTheMethodForWhatDoesNotFit) {
  NEED_MODEL();
  const host::Scratch scratch;
  const auto rows = host::rows(host::kPrompts);
  const Settings one_block = {{"kv_cache_memory", "32768"}, {"estimate.compare", "[]"}};
  refused(host::grpo(scratch / "out", host::with(one_block, {{"max_completion_length", "200"}})),
          "kv_cache_memory", "(max_completion_length)", rows.get());
  refused(host::online_dpo(scratch / "out", host::with(one_block, {{"max_new_tokens", "200"}})),
          "kv_cache_memory", "(max_new_tokens)", rows.get());
}

TEST(GenerationPlan, OfTooFewPromptsIsRefused) {
  NEED_MODEL();
  const host::Scratch scratch;
  const auto rows = host::rows("{\"prompt\": \"one\"}\n");
  refused(host::grpo(scratch / "out"), "dataset_name",
          "it has 1 prompt, and a generation takes 2 (its 4 completions are 2 of each)", rows.get());
}

TEST(GenerationPlan, OfRowsThatARewardCannotReadIsRefused) {
  NEED_MODEL();
  const host::Scratch scratch;
  const auto rows = host::rows(host::kPrompts);
  refused(host::grpo(scratch / "out", {{"reward_funcs", "accuracy_reward"}}), "reward_funcs",
          "dataset row 0 has no column solution", rows.get());
}

int64_t peak_of(const char* kind) {
  const auto runtime = host::runtime();
  int64_t peak = 0;
  EXPECT_EQ(trl_runtime_memory(runtime.get(), kind, nullptr, &peak, nullptr), TRL_OK);
  return peak;
}

// Samples that take far more than a step, so that they are the peak.
Settings many_samples() {
  std::string prompts = "[";
  for (int i = 0; i < 24; ++i) {
    prompts += i > 0 ? ", \"" : "\"";
    for (int word = 0; word < 60; ++word) prompts += " it" + std::to_string((i + word) % 10);
    prompts += "\"";
  }
  return {{"sample_prompts", prompts + "]"},
          {"sample_steps", "1"},
          {"sample_max_new_tokens", "8"},
          {"generation_dtype", "int8"}};
}

TEST(GenerationPlan, SamplesAreAPartOfThePeakOfTheRun) {
  NEED_MODEL();
  const host::Scratch scratch;
  const Settings sampled = small(scratch, many_samples());
  const auto rows = host::open_rows(host::golden("data/datasets/train_lm.jsonl"));
  {
    const auto trainer = host::trainer(sampled, rows.get());
    Error error;
    ASSERT_EQ(trl_trainer_train(trainer.get(), nullptr, nullptr, error), TRL_OK) << error.message();
  }
  const auto measured = static_cast<double>(peak_of(nullptr));  // of this process, before plans measure times
  const Json with = plan(sampled), without = plan(small(scratch));
  const Json& all = with.at("samples");
  EXPECT_EQ(all.at("prompts"), 24);
  EXPECT_GT(with.at("counted_bytes").get<int64_t>(),
            without.at("counted_bytes").get<int64_t>() + all.at("copies_bytes").get<int64_t>());
  const auto predicted = with.at("counted_bytes").get<double>();
  if (measured > 2 * predicted) GTEST_SKIP() << "an earlier test of this process has taken more";
  EXPECT_NEAR(measured, predicted, 0.1 * predicted);
}

// With serve_share, requests are answered during the steps: what they take is a part of the peak.
TEST(GenerationPlan, CountsRequestsWhileTheRunTrains) {
  NEED_MODEL();
  const host::Scratch scratch;
  constexpr int64_t kPrompts = 24, kPromptTokens = 190, kNewTokens = 60;
  const Settings alone = small(scratch, {{"use_peft", "true"},
                                         {"lora_r", "8"},
                                         {"lora_target_modules", "all-linear"},
                                         {"max_steps", "40"},
                                         {"report_to", "none"},
                                         {"prefix_cache", "false"}});
  const Settings share = {{"serve_share", "0.5"}};
  const Settings requested = {{"estimate.prompt_tokens", std::to_string(kPromptTokens)},
                              {"estimate.prompts", std::to_string(kPrompts)},
                              {"generate.max_new_tokens", std::to_string(kNewTokens)}};
  const int64_t before = peak_of(nullptr);
  {
    const auto rows = host::open_rows(host::golden("data/datasets/train_lm.jsonl"));
    const auto trainer = host::trainer(host::with(alone, share), rows.get());
    const auto model = host::model_of(trainer.get());
    const auto generator = host::generator_of(model.get());
    const auto options = host::config(
        {{"generate.max_new_tokens", std::to_string(kNewTokens)}, {"generate.ignore_eos", "true"}});
    std::atomic<bool> over{false};
    std::thread requests([&] {  // again and again, so that all run at once during some step
      Error error;
      std::vector<int32_t> ids(kPromptTokens);
      while (!over) {
        for (int64_t i = 0; i < kPrompts; ++i) {
          ids[0] = static_cast<int32_t>(10 + i);  // prompts that share nothing
          size_t number = 0;
          ASSERT_EQ(trl_generator_add(generator.get(), nullptr, 0, ids.data(), ids.size(), options.get(),
                                      &number, error),
                    TRL_OK)
              << error.message();
        }
        while (trl_generator_step(generator.get(), nullptr, nullptr, error) == TRL_OK) {
        }
      }
    });
    Error error;
    EXPECT_EQ(trl_trainer_train(trainer.get(), nullptr, nullptr, error), TRL_OK) << error.message();
    over = true;
    requests.join();
  }
  const auto measured = static_cast<double>(peak_of(nullptr));
  const Settings planned = host::with(alone, requested);
  const Json with = plan(host::with(planned, share)), without = plan(planned);
  const Json& asked = with.at("generation");
  const int64_t more = with.at("counted_bytes").get<int64_t>() - without.at("counted_bytes").get<int64_t>();
  EXPECT_GE(more, asked.at("bytes").get<int64_t>());
  EXPECT_GE(asked.at("peak_bytes"), with.at("peak_bytes"));
  std::vector<std::string> terms;
  for (const Json& term : with.at("terms")) terms.push_back(term.at("name"));
  EXPECT_NE(std::ranges::find(terms, "adapter for requests meanwhile"), terms.end());
  EXPECT_NE(std::ranges::find(terms, "generation for requests meanwhile"), terms.end());
  const auto predicted = with.at("counted_bytes").get<double>();
  if (static_cast<double>(before) > 0.5 * predicted)
    GTEST_SKIP() << "an earlier test of this process has taken more";
  EXPECT_LE(measured, 1.1 * predicted);
  EXPECT_GE(measured, 0.6 * predicted);
}

// A run keeps the copies of generation_dtype during its updates, unless it is told to let them go.
TEST(GenerationPlan, CountsTheCopiesDuringAnUpdate) {
  NEED_MODEL();
  const host::Scratch scratch;
  const auto prompts = host::open_rows(host::golden("data/datasets/train_prompts.jsonl"));
  const auto peak = [&](const Settings& more) {
    const Settings own = {{"method", "grpo"},
                          {"num_generations", "2"},
                          {"per_device_train_batch_size", "8"},
                          {"max_completion_length", "64"},
                          {"save_strategy", "no"},
                          {"kv_cache_memory", "1MB"},
                          {"estimate.compare", "[]"}};
    return plan(host::with(host::tiny(scratch / "out"), host::with(own, more)), prompts.get())
        .at("counted_bytes")
        .get<int64_t>();
  };
  const int64_t without = peak({}), with = peak({{"generation_dtype", "int8"}}),
                slept = peak({{"generation_dtype", "int8"}, {"vllm_enable_sleep_mode", "true"}});
  EXPECT_GT(with, without);
  EXPECT_LT(slept, with);
}

// The keys and values of a generation go back at its end; of what generates, only the copies stay.
TEST(GenerationPlan, LetsGoOfTheKeysOfCompletionsBeforeSamples) {
  NEED_MODEL();
  const host::Scratch scratch;
  const auto prompts = host::open_rows(host::golden("data/datasets/train_prompts.jsonl"));
  const auto planned = [&](const Settings& more) {
    const Settings own = {{"method", "grpo"},
                          {"num_generations", "2"},
                          {"per_device_train_batch_size", "2"},
                          {"max_completion_length", "64"},
                          {"save_strategy", "no"},
                          {"kv_cache_memory", "8MB"},
                          {"estimate.compare", "[]"}};
    return plan(host::with(host::tiny(scratch / "out"), host::with(host::with(own, many_samples()), more)),
                prompts.get());
  };
  const Json kept = planned({}), slept = planned({{"vllm_enable_sleep_mode", "true"}});
  const Json& samples = kept.at("samples");
  EXPECT_GT(samples.at("copies_bytes").get<int64_t>(), 0);
  EXPECT_EQ(samples.at("asleep_bytes"), samples.at("copies_bytes"));
  EXPECT_EQ(slept.at("samples").at("asleep_bytes"), 0);
  EXPECT_EQ(slept.at("samples").at("copies_bytes"), samples.at("copies_bytes"));
  EXPECT_LE(kept.at("counted_bytes").get<int64_t>() - slept.at("counted_bytes").get<int64_t>(),
            samples.at("copies_bytes").get<int64_t>() + samples.at("kv_block_bytes").get<int64_t>());
}

// A teacher that writes completions has copies of its own beside those of the model.
TEST(GenerationPlan, CountsTheCopiesOfATeacherThatWrites) {
  NEED_MODEL();
  NEED_GOLDEN("models/qwen3/model.safetensors");
  const host::Scratch scratch;
  std::string chats;
  for (int i = 0; i < 8; ++i)
    chats +=
        R"({"messages": [{"role": "user", "content": "A sea."}, {"role": "assistant", "content": "The Baltic."}]})"
        "\n";
  const auto rows = host::rows(chats);
  const auto peak = [&](const char* teacher_writes, const Settings& more) {
    const Settings own = {
        {"method", "gkd"},          {"teacher_model_name_or_path", host::golden("models/qwen3")},
        {"seq_kd", teacher_writes}, {"max_new_tokens", "64"},
        {"save_strategy", "no"},    {"kv_cache_memory", "4MB"},
        {"estimate.compare", "[]"}};
    return plan(host::with(host::tiny(scratch / "out"), host::with(own, more)), rows.get())
        .at("counted_bytes")
        .get<int64_t>();
  };
  const Settings int8 = {{"generation_dtype", "int8"}};
  const int64_t of_model = peak("false", int8) - peak("false", {}),
                of_both = peak("true", int8) - peak("true", {});
  EXPECT_GT(of_model, 0);
  EXPECT_GT(static_cast<double>(of_both), 1.3 * static_cast<double>(of_model));
}

}  // namespace
