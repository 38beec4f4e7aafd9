// trl_evaluator_*: the numbers of an evaluation within a run, without a run.
#include <cmath>
#include <set>

#include "engine/run.h"

namespace {

using host::Error;
using host::Settings;

#define NEED_MODEL() NEED_GOLDEN("models/qwen2/model.safetensors")

using Numbers = std::map<std::string, double>;

// Leaves out times and counts of training.
Numbers numbers_of(const trl_metrics* metrics) {
  const std::set<std::string> others = {"eval_runtime",
                                        "eval_samples_per_second",
                                        "eval_steps_per_second",
                                        "eval_num_tokens",
                                        "eval_perplexity",
                                        "step",
                                        "epoch"};
  Numbers out;
  for (const char* name = trl_metrics_next(metrics, nullptr); name != nullptr;
       name = trl_metrics_next(metrics, name)) {
    if (others.count(name) == 0) out[name] = host::metric(metrics, name);
  }
  return out;
}

host::Evaluator evaluator(const Settings& settings, trl_runtime* runtime = nullptr) {
  trl_evaluator* made = nullptr;
  Error error;
  EXPECT_EQ(trl_evaluator_create(runtime, host::config(settings).get(), &made, error), TRL_OK)
      << error.message();
  return host::Evaluator(made);
}

Numbers measured(const Settings& settings, const trl_dataset* rows) {
  const host::Evaluator made = evaluator(settings);
  const trl_metrics* metrics = nullptr;
  Error error;
  EXPECT_EQ(trl_evaluator_evaluate(made.get(), rows, &metrics, error), TRL_OK) << error.message();
  return metrics != nullptr ? numbers_of(metrics) : Numbers();
}

Numbers measured_by_run(trl_trainer* trainer) {
  const trl_metrics* metrics = nullptr;
  Error error;
  EXPECT_EQ(trl_trainer_evaluate(trainer, nullptr, &metrics, error), TRL_OK) << error.message();
  return metrics != nullptr ? numbers_of(metrics) : Numbers();
}

struct Kind {
  const char* method;
  const char* rows;
};
constexpr Kind kKinds[] = {{"sft", "train_lm.jsonl"},
                           {"dpo", "train_pref.jsonl"},
                           {"kto", "train_unpaired.jsonl"},
                           {"reward", "train_pref.jsonl"}};

Settings settings_of(const Kind& kind, const std::string& output, const Settings& more = {}) {
  return host::with(host::with({{"method", kind.method}}, host::tiny(output)),
                    host::with({{"max_steps", "3"}, {"save_strategy", "no"}}, more));
}

host::Dataset rows_of(const Kind& kind) {
  return host::open_rows(host::golden(std::string("data/datasets/") + kind.rows));
}

void expect_same(const Numbers& got, const Numbers& want, double relative) {
  EXPECT_FALSE(want.empty());
  for (const auto& [name, value] : want) {
    const auto found = got.find(name);
    ASSERT_NE(found, got.end()) << name;
    EXPECT_NEAR(found->second, value, relative * std::max(1.0, std::abs(value))) << name;
  }
  EXPECT_EQ(got.size(), want.size());
}

// A run measures at its end and saves; then that model is measured by itself.
TEST(Evaluator, MeasuresWhatTheRunMeasured) {
  NEED_MODEL();
  for (const Kind& kind : kKinds) {
    for (const char* bf16 : {"false", "true"}) {
      SCOPED_TRACE(std::string(kind.method) + " bf16 " + bf16);
      const host::Scratch scratch;
      const host::Dataset rows = rows_of(kind);
      const std::string saved = (scratch / "out").string();
      const Settings settings = settings_of(kind, saved, {{"bf16", bf16}});
      const host::Trainer trainer = host::trainer(settings, rows.get(), rows.get());
      Error error;
      ASSERT_EQ(trl_trainer_train(trainer.get(), nullptr, nullptr, error), TRL_OK) << error.message();
      ASSERT_EQ(trl_trainer_save(trainer.get(), nullptr, nullptr, error), TRL_OK) << error.message();
      Settings again = host::with(settings, {{"model_name_or_path", saved}});
      if (std::string(kind.method) == "dpo" || std::string(kind.method) == "kto")
        again.emplace_back("ref_model_name_or_path", host::golden("models/qwen2"));
      expect_same(measured(again, rows.get()), measured_by_run(trainer.get()), 1e-6);
    }
  }
}

// The adapter's directory names its model; the reference is the model without it.
TEST(Evaluator, MeasuresAnAdapterAsItsRunDid) {
  NEED_MODEL();
  for (const Kind& kind : kKinds) {
    for (const char* held : {"", "load_in_4bit", "load_in_8bit"}) {
      SCOPED_TRACE(std::string(kind.method) + " " + held);
      const host::Scratch scratch;
      const host::Dataset rows = rows_of(kind);
      const std::string saved = (scratch / "out").string();
      Settings settings = settings_of(kind, saved, {{"lora_target_modules", "[q_proj, v_proj, down_proj]"}});
      if (*held != '\0') settings.emplace_back(held, "true");
      const host::Trainer trainer =
          host::trainer(host::with(settings, {{"use_peft", "true"}}), rows.get(), rows.get());
      Error error;
      ASSERT_EQ(trl_trainer_train(trainer.get(), nullptr, nullptr, error), TRL_OK) << error.message();
      ASSERT_EQ(trl_trainer_save(trainer.get(), nullptr, nullptr, error), TRL_OK) << error.message();
      const Numbers want = measured_by_run(trainer.get());
      expect_same(measured(host::with(settings, {{"model_name_or_path", saved}}), rows.get()), want, 1e-6);
      expect_same(measured(host::with(settings, {{"adapter_name_or_path", saved}}), rows.get()), want, 1e-6);
    }
  }
}

// Tokens of another model: the adapter brings them, and the embedding and a head of its own get their rows.
TEST(Evaluator, MeasuresAnAdapterWithNewTokens) {
  for (const char* model : {"models/llama", "models/llama3"}) {
    SCOPED_TRACE(model);
    NEED_GOLDEN(std::string(model) + "/model.safetensors");
    const host::Scratch scratch;
    const Kind chat{"sft", "train_chat.jsonl"};
    const host::Dataset rows = rows_of(chat);
    const std::string saved = (scratch / "out").string();
    const Settings settings = host::with(settings_of(chat, saved, {{"lora_target_modules", "[q_proj]"}}),
                                         {{"model_name_or_path", host::golden(model)}});
    const host::Trainer trainer = host::trainer(
        host::with(settings, {{"use_peft", "true"}, {"chat_template_path", host::golden("models/qwen2")}}),
        rows.get(), rows.get());
    Error error;
    ASSERT_EQ(trl_trainer_train(trainer.get(), nullptr, nullptr, error), TRL_OK) << error.message();
    ASSERT_EQ(trl_trainer_save(trainer.get(), nullptr, nullptr, error), TRL_OK) << error.message();
    expect_same(measured(host::with(settings, {{"model_name_or_path", saved}}), rows.get()),
                measured_by_run(trainer.get()), 1e-6);
  }
}

// Blocks of a GGUF file, dequantised or kept as they are, with an adapter too.
TEST(Evaluator, MeasuresQuantisedGgufFiles) {
  NEED_MODEL();
  const host::Scratch scratch;
  const std::string file = (scratch / "model.gguf").string();
  Error error;
  ASSERT_EQ(trl_model_convert(nullptr, host::golden("models/qwen2").c_str(), file.c_str(),
                              host::config({{"convert.type", "q8_0"}}).get(), error),
            TRL_OK)
      << error.message();
  const host::Dataset rows = rows_of(kKinds[0]);
  const Settings settings =
      settings_of(kKinds[0], (scratch / "out").string(), {{"model_name_or_path", file}});
  const host::Trainer whole = host::trainer(settings, rows.get(), rows.get());
  const Numbers want = measured_by_run(whole.get());
  expect_same(measured(settings, rows.get()), want, 1e-6);
  const Settings kept = host::with(settings, {{"dtype", "keep"}});
  expect_same(measured(kept, rows.get()), want, 1e-6);
  const host::Trainer adapted = host::trainer(
      host::with(kept, {{"use_peft", "true"}, {"lora_target_modules", "[q_proj]"}}), rows.get(), rows.get());
  ASSERT_EQ(trl_trainer_train(adapted.get(), nullptr, nullptr, error), TRL_OK) << error.message();
  ASSERT_EQ(trl_trainer_save(adapted.get(), nullptr, nullptr, error), TRL_OK) << error.message();
  expect_same(measured(host::with(kept, {{"adapter_name_or_path", (scratch / "out").string()}}), rows.get()),
              measured_by_run(adapted.get()), 1e-6);
}

// Only the mean of -log p has one.
TEST(Evaluator, GivesAPerplexityWhereItMeansSomething) {
  NEED_MODEL();
  const host::Scratch scratch;
  for (const auto& [kind, more, there] : {std::tuple{kKinds[0], Settings{}, true},
                                          {kKinds[0], Settings{{"label_smoothing_factor", "0.1"}}, false},
                                          {kKinds[0], Settings{{"loss_type", "dft"}}, false},
                                          {kKinds[1], Settings{}, false},
                                          {kKinds[2], Settings{}, false},
                                          {kKinds[3], Settings{}, false}}) {
    SCOPED_TRACE(std::string(kind.method) + (more.empty() ? "" : " " + more[0].first));
    const host::Dataset rows = rows_of(kind);
    const host::Evaluator made = evaluator(settings_of(kind, (scratch / "out").string(), more));
    const trl_metrics* metrics = nullptr;
    Error error;
    ASSERT_EQ(trl_evaluator_evaluate(made.get(), rows.get(), &metrics, error), TRL_OK) << error.message();
    double perplexity = 0;
    EXPECT_EQ(trl_metrics_get(metrics, "eval_perplexity", &perplexity), there ? TRL_OK : TRL_E_NOT_FOUND);
    if (there) {
      EXPECT_DOUBLE_EQ(perplexity, std::exp(host::metric(metrics, "eval_loss")));
    }
  }
}

// The recipe of a run is taken as it is: its keys of training play no part.
TEST(Evaluator, TakesTheRecipeOfARun) {
  NEED_MODEL();
  const host::Scratch scratch;
  const host::Dataset rows = rows_of(kKinds[1]);
  const Settings plain = settings_of(kKinds[1], (scratch / "out").string());
  const Settings recipe = host::with(plain, {{"eval_strategy", "steps"},
                                             {"save_strategy", "steps"},
                                             {"load_best_model_at_end", "true"},
                                             {"eval_steps", "2"},
                                             {"save_steps", "2"},
                                             {"sync_ref_model", "true"},
                                             {"memory_budget", "1GB"},
                                             {"report_to", "csv"},
                                             {"optim", "paged_adamw_8bit"},
                                             {"ref_model_name_or_path", host::golden("models/qwen2")}});
  expect_same(measured(recipe, rows.get()), measured(plain, rows.get()), 1e-6);
  const Settings kept = host::with(
      plain, {{"precompute_ref_log_probs", "true"}, {"ref_logprobs_cache_dir", (scratch / "kept").string()}});
  expect_same(measured(kept, rows.get()), measured(plain, rows.get()), 1e-6);
  EXPECT_FALSE(std::filesystem::exists(scratch / "kept"));
  EXPECT_FALSE(std::filesystem::exists(scratch / "out"));
}

// No gradient, no optimizer's state, no second copy of the weights; and nothing on the disk.
TEST(Evaluator, TakesWhatAForwardNeeds) {
  NEED_MODEL();
  const host::Scratch scratch;
  std::filesystem::create_directories(scratch / "here");
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(scratch / "here");
  const host::Runtime runtime = host::runtime();
  const host::Dataset rows = rows_of(kKinds[0]);
  Settings settings = host::with(settings_of(kKinds[0], ""), {});
  std::erase_if(settings, [](const auto& pair) { return pair.first == "output_dir"; });
  const host::Evaluator made = evaluator(settings, runtime.get());
  const trl_metrics* metrics = nullptr;
  Error error;
  ASSERT_EQ(trl_evaluator_evaluate(made.get(), rows.get(), &metrics, error), TRL_OK) << error.message();
  int64_t weights = 0;
  ASSERT_EQ(trl_runtime_memory(runtime.get(), "weights", &weights, nullptr, error), TRL_OK);
  const auto file = std::filesystem::file_size(host::golden("models/qwen2/model.safetensors"));
  EXPECT_LT(weights, static_cast<int64_t>(file) / 8);  // only vectors
  for (const char* kind : {"gradients", "optimizer"}) {
    int64_t now = -1;
    ASSERT_EQ(trl_runtime_memory(runtime.get(), kind, &now, nullptr, error), TRL_OK);
    EXPECT_EQ(now, 0) << kind;
  }
  EXPECT_TRUE(std::filesystem::is_empty(scratch / "here"));
  std::filesystem::current_path(before);
}

// A limit that a run does not fit in, and one that nothing fits in.
TEST(Evaluator, KeepsAMemoryLimit) {
  NEED_MODEL();
  const host::Scratch scratch;
  const host::Runtime runtime = host::runtime();
  const host::Dataset rows = rows_of(kKinds[0]);
  const Settings settings =
      settings_of(kKinds[0], (scratch / "out").string(), {{"per_device_eval_batch_size", "1"}});
  Error error;
  const auto leave = [&](int64_t room) {
    int64_t now = 0;
    ASSERT_EQ(trl_runtime_memory(runtime.get(), nullptr, &now, nullptr, error), TRL_OK);
    ASSERT_EQ(trl_runtime_set_memory_limit(runtime.get(), now + room, error), TRL_OK) << error.message();
  };
  leave(600000);
  trl_trainer* trainer = nullptr;
  EXPECT_EQ(
      trl_trainer_create(runtime.get(), host::config(settings).get(), rows.get(), nullptr, &trainer, error),
      TRL_E_OUT_OF_MEMORY);
  trl_trainer_destroy(trainer);
  {
    const host::Evaluator made = evaluator(settings, runtime.get());
    const trl_metrics* metrics = nullptr;
    EXPECT_EQ(trl_evaluator_evaluate(made.get(), rows.get(), &metrics, error), TRL_OK) << error.message();
    leave(20000);
    EXPECT_EQ(trl_evaluator_evaluate(made.get(), rows.get(), &metrics, error), TRL_E_OUT_OF_MEMORY);
    EXPECT_EQ(error.key(), "runtime.host_memory_limit");
    EXPECT_TRUE(error.names("max_length")) << error.message();
  }
  // Weights that memory does not take as bfloat16 stay in their file.
  const auto weights = [&](int64_t room) {
    leave(room);
    const host::Evaluator made = evaluator(host::with(settings, {{"bf16", "true"}}), runtime.get());
    int64_t now = 0;
    EXPECT_EQ(trl_runtime_memory(runtime.get(), "weights", &now, nullptr, error), TRL_OK);
    return now;
  };
  EXPECT_GT(weights(1000000), 50000);
  EXPECT_LT(weights(180000), 20000);
  leave(8000);
  trl_evaluator* made = nullptr;
  EXPECT_EQ(trl_evaluator_create(runtime.get(), host::config(settings).get(), &made, error),
            TRL_E_OUT_OF_MEMORY);
  EXPECT_EQ(error.key(), "runtime.host_memory_limit");
  EXPECT_TRUE(error.names("a row of 1 token takes")) << error.message();
  trl_runtime_set_memory_limit(runtime.get(), 0, nullptr);
}

TEST(Evaluator, EndsWhereTheHostSaysSo) {
  NEED_MODEL();
  const host::Scratch scratch;
  const host::Runtime runtime = host::runtime();
  bool stop = true;
  const auto progress = [](void* data, const char* phase, int64_t, int64_t) -> int32_t {
    return *static_cast<bool*>(data) && std::string_view(phase) == "evaluate" ? TRL_PROGRESS_STOP : 0;
  };
  Error error;
  ASSERT_EQ(trl_runtime_set_progress(runtime.get(), progress, &stop, nullptr, error), TRL_OK);
  const host::Dataset rows = rows_of(kKinds[0]);
  const host::Evaluator made = evaluator(settings_of(kKinds[0], (scratch / "out").string()), runtime.get());
  const trl_metrics* metrics = nullptr;
  EXPECT_EQ(trl_evaluator_evaluate(made.get(), rows.get(), &metrics, error), TRL_E_CANCELLED);
  EXPECT_EQ(metrics, nullptr);
  stop = false;
  EXPECT_EQ(trl_evaluator_evaluate(made.get(), rows.get(), &metrics, error), TRL_OK) << error.message();
}

TEST(Evaluator, RefusesWhatItCannotMeasure) {
  NEED_MODEL();
  const host::Scratch scratch;
  const auto refusal = [&](const Settings& more) {
    trl_evaluator* made = nullptr;
    Error error;
    EXPECT_LT(
        trl_evaluator_create(
            nullptr, host::config(host::with(settings_of(kKinds[1], (scratch / "out").string()), more)).get(),
            &made, error),
        0);
    trl_evaluator_destroy(made);
    return error.message();
  };
  EXPECT_NE(refusal({{"model_name_or_path", (scratch / "none").string()}}).find("none"), std::string::npos);
  EXPECT_NE(refusal({{"ref_model_name_or_path", (scratch / "gone").string()}}).find("ref_model_name_or_path"),
            std::string::npos);
  const host::Dataset rows = host::rows(R"({"text": "no pair"})");
  const host::Evaluator made = evaluator(settings_of(kKinds[1], (scratch / "out").string()));
  const trl_metrics* metrics = nullptr;
  Error error;
  EXPECT_EQ(trl_evaluator_evaluate(made.get(), rows.get(), &metrics, error), TRL_E_FORMAT);
  const host::Dataset long_rows = host::rows(R"({"prompt": "a", "chosen": " b", "rejected": " c"})");
  EXPECT_EQ(trl_evaluator_evaluate(made.get(), long_rows.get(), &metrics, error), TRL_OK) << error.message();
}

// As trl generate with the same options, on the same model.
TEST(Evaluator, CompletesSamplePrompts) {
  NEED_MODEL();
  const host::Scratch scratch;
  const auto completed = [](const Settings& settings) {
    const host::Evaluator made = evaluator(settings);
    const char* json = nullptr;
    Error error;
    EXPECT_EQ(trl_evaluator_complete(made.get(), &json, error), TRL_OK) << error.message();
    return json != nullptr ? host::parse(json) : host::Json();
  };
  const Settings plain = host::tiny(scratch / "out");
  EXPECT_EQ(completed(plain), host::Json::array());
  const host::Json all =
      completed(host::with(plain, {{"sample_prompts", "[It opens today]"}, {"sample_max_new_tokens", "5"}}));
  const auto model = host::open_model(host::golden("models/qwen2"));
  trl_generator* made = nullptr;
  ASSERT_EQ(trl_generator_create(model.get(), nullptr, &made, nullptr), TRL_OK);
  const host::Generator generator(made);
  const char* prompt = "It opens today";
  trl_completions* completions = nullptr;
  ASSERT_EQ(trl_generator_generate(generator.get(), &prompt, nullptr, 1,
                                   host::config({{"generate.max_new_tokens", "5"}}).get(), nullptr, nullptr,
                                   &completions, nullptr),
            TRL_OK);
  const host::Completions held(completions);
  size_t size = 0;
  const char* const text = trl_completions_text(completions, 0, &size);
  EXPECT_EQ(all, host::Json::array({{{"prompt", prompt}, {"completion", std::string(text, size)}}}));
}

}  // namespace
