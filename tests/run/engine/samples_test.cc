// sample_prompts through the C API: when samples are taken, what they change (nothing), and what is refused.
#include "engine/rewarded.h"

namespace {

using host::Error;
using host::Json;
using host::Settings;

#define NEED_MODEL() NEED_GOLDEN("models/qwen2/model.safetensors")

constexpr const char* kPrompts = R"(["It opens today", [{"role": "user", "content": "What does it do?"}]])";

// Noise and dropout draw random numbers in every step.
Settings sampled(const host::Scratch& scratch, const std::string& name, const Settings& more = {}) {
  const Settings own = {{"sample_prompts", kPrompts}, {"sample_max_new_tokens", "6"},
                        {"neftune_noise_alpha", "5"}, {"save_strategy", "no"},
                        {"max_steps", "4"},           {"per_device_eval_batch_size", "32"}};
  return host::with(host::tiny(scratch / name), host::with(own, more));
}

host::Dataset texts() { return host::open_rows(host::golden("data/datasets/train_lm.jsonl")); }

void train(trl_trainer* trainer) {
  Error error;
  ASSERT_EQ(trl_trainer_train(trainer, nullptr, nullptr, error), TRL_OK) << error.message();
}

std::string weights(trl_trainer* trainer, const host::Scratch& scratch) {
  const host::Config options = host::config({{"save.kind", "model"}});
  const auto directory = scratch / "saved";
  EXPECT_EQ(trl_trainer_save(trainer, directory.c_str(), options.get(), nullptr), TRL_OK);
  for (const char* name : {"model.safetensors", "adapter_model.safetensors"}) {
    if (std::filesystem::exists(directory / name)) return host::read_file(directory / name);
  }
  return {};
}

Json history(trl_trainer* trainer) {
  Json log = host::state(trainer)["log_history"];
  for (Json& record : log) {
    for (const char* name : {"train_runtime", "train_samples_per_second", "train_steps_per_second",
                             "eval_runtime", "eval_samples_per_second", "eval_steps_per_second"})
      record.erase(name);
  }
  return log;
}

std::vector<Json> samples(const host::Scratch& scratch, const std::string& name) {
  std::vector<Json> all;
  std::istringstream lines(host::read_file(scratch / name / "samples.jsonl"));
  for (std::string line; std::getline(lines, line);) all.push_back(host::parse(line));
  return all;
}

// Two prompts each.
std::vector<int64_t> steps(const std::vector<Json>& samples) {
  std::vector<int64_t> steps;
  for (size_t i = 0; i < samples.size(); i += 2) {
    steps.push_back(samples[i]["step"]);
    EXPECT_EQ(samples.at(i + 1)["step"], samples[i]["step"]);
    EXPECT_EQ(samples[i]["prompt"], "It opens today");
    EXPECT_EQ(samples[i + 1]["prompt"], host::parse(kPrompts)[1]);
  }
  return steps;
}

using Steps = std::vector<int64_t>;

TEST(Samples, AreTakenAtEvaluationsAndChangeNothing) {
  NEED_MODEL();
  const host::Scratch scratch;
  const auto rows = texts();
  const Settings evaluated = {{"eval_strategy", "steps"}, {"eval_steps", "2"}, {"eval_on_start", "true"}};
  const auto with = host::trainer(sampled(scratch, "with", evaluated), rows.get(), rows.get());
  const auto without =
      host::trainer(host::with(sampled(scratch, "without", evaluated), {{"sample_prompts", "null"}}),
                    rows.get(), rows.get());
  train(with.get());
  train(without.get());
  EXPECT_EQ(history(with.get()), history(without.get()));
  EXPECT_TRUE(weights(with.get(), scratch) == weights(without.get(), scratch));
  EXPECT_FALSE(std::filesystem::exists(scratch / "without" / "samples.jsonl"));
  const std::vector<Json> taken = samples(scratch, "with");
  EXPECT_EQ(steps(taken), (Steps{0, 2, 4}));
  EXPECT_EQ(taken[2]["epoch"], 0.125);
  EXPECT_NE(taken[0]["completion"], "");
}

struct Log {
  std::vector<std::string> lines;
  trl_trainer* cancelled = nullptr;
  static void write(void* data, int32_t, const char*, const char* text, size_t size) {
    auto* self = static_cast<Log*>(data);
    self->lines.emplace_back(text, size);
    if (self->cancelled != nullptr && self->lines.back().starts_with("step at step 2"))
      trl_trainer_cancel(std::exchange(self->cancelled, nullptr));
  }
};

// With every trainer that has a head of language, on an adapter too: the completions are those of the weights
// that are trained.
TEST(Samples, AreThoseOfTheTrainedWeights) {
  NEED_MODEL();
  for (const auto& [method, file] :
       {std::pair{"sft", "train_lm"}, std::pair{"dpo", "train_pref"}, std::pair{"kto", "train_unpaired"}}) {
    SCOPED_TRACE(method);
    const host::Scratch scratch;
    const auto rows = host::open_rows(host::golden(std::string("data/datasets/") + file + ".jsonl"));
    Settings settings = {{"method", method}, {"use_peft", "true"}, {"lora_r", "4"}};
    for (const auto& pair : sampled(scratch, "out", {{"sample_steps", "3"}, {"report_to", "html"}}))
      if (pair.first != "neftune_noise_alpha" || settings[0].second == "sft") settings.push_back(pair);
    const auto runtime = host::runtime();
    Log log;
    ASSERT_EQ(trl_runtime_set_log(runtime.get(), Log::write, &log, nullptr, nullptr), TRL_OK);
    const auto trainer =
        host::trainer(host::with(settings, {{"learning_rate", "0.05"}}), rows.get(), nullptr, runtime.get());
    train(trainer.get());
    const std::vector<Json> taken = samples(scratch, "out");
    EXPECT_EQ(steps(taken), (Steps{3, 4}));

    const host::Generator generator = host::generator_of(trainer.get());
    const char* prompt = "It opens today";
    trl_completions* completions = nullptr;
    ASSERT_EQ(trl_generator_generate(generator.get(), &prompt, nullptr, 1,
                                     host::config({{"generate.max_new_tokens", "6"}}).get(), nullptr, nullptr,
                                     &completions, nullptr),
              TRL_OK);
    const host::Completions held(completions);
    size_t size = 0;
    const char* text = trl_completions_text(completions, 0, &size);
    EXPECT_EQ(taken[2]["completion"], std::string(text, size));

    const std::string page = host::read_file(scratch / "out" / "report.html");
    EXPECT_NE(page.find("<h2>Samples</h2>"), std::string::npos);
    EXPECT_NE(page.find("<tr><td>4</td><td>It opens today</td>"), std::string::npos);
    for (const char* start :
         {"sample of step 3: 'It opens today' -> '", "sample of step 4: 'user: What does it"})
      EXPECT_TRUE(std::any_of(log.lines.begin(), log.lines.end(), [&](const std::string& line) {
        return line.starts_with(start);
      })) << start;
  }
}

// A run that writes completions shares the memory of keys and values with its samples, and an update follows.
TEST(Samples, GiveKeysAndValuesBack) {
  NEED_MODEL();
  const host::Scratch scratch;
  std::string prompt = "It opens today";
  for (int i = 0; i < 80; ++i) prompt += " it";
  const auto runtime = host::runtime();
  host::Rewarded run(host::grpo(scratch / "out", {{"sample_prompts", "[\"" + prompt + "\"]"},
                                                  {"sample_steps", "1"},
                                                  {"sample_max_new_tokens", "6"}}),
                     host::reward_all);
  ASSERT_EQ(trl_trainer_step(run.trainer.get(), nullptr, run.error), TRL_OK) << run.error.message();
  EXPECT_EQ(samples(scratch, "out").size(), 1u);
  constexpr int64_t kSlab = int64_t{4} << 20;  // keys and values take memory in such pieces
  int64_t bytes = 0;
  ASSERT_EQ(trl_runtime_memory(runtime.get(), "workspace", &bytes, nullptr, nullptr), TRL_OK);
  EXPECT_LT(bytes, kSlab);
}

TEST(Samples, GoOnWhereTheCheckpointWas) {
  NEED_MODEL();
  const host::Scratch scratch;
  const auto rows = texts();
  const Settings saves = {{"save_strategy", "steps"}, {"save_steps", "1"}};
  train(host::trainer(sampled(scratch, "whole", saves), rows.get()).get());
  const std::string whole = host::read_file(scratch / "whole" / "samples.jsonl");
  EXPECT_EQ(steps(samples(scratch, "whole")), (Steps{1, 2, 3, 4}));  // without evaluations: with checkpoints
  const auto resume = [&] {
    train(host::trainer(sampled(scratch, "whole",
                                host::with(saves, {{"resume_from_checkpoint",
                                                    (scratch / "whole" / "checkpoint-2").string()}})),
                        rows.get())
              .get());
    return host::read_file(scratch / "whole" / "samples.jsonl");
  };
  EXPECT_EQ(resume(), whole);
  // The process was killed between its checkpoint and the samples of that step.
  host::write_file(scratch / "whole" / "samples.jsonl", whole.substr(0, whole.find("{\"step\":2") + 20));
  EXPECT_EQ(resume(), whole);
  train(host::trainer(sampled(scratch, "whole", {{"sample_steps", "4"}, {"overwrite_output_dir", "true"}}),
                      rows.get())
            .get());
  EXPECT_EQ(steps(samples(scratch, "whole")), Steps{4});  // a new run starts the file anew
}

TEST(Samples, ThatACancelEndsAreTakenByTheNextCall) {
  NEED_MODEL();
  const host::Scratch scratch;
  const auto rows = texts();
  const auto runtime = host::runtime();
  Log log;
  ASSERT_EQ(trl_runtime_set_log(runtime.get(), Log::write, &log, nullptr, nullptr), TRL_OK);
  const Settings each = {{"sample_steps", "1"}};
  const auto cut = host::trainer(sampled(scratch, "cut", each), rows.get(), nullptr, runtime.get());
  const auto whole = host::trainer(sampled(scratch, "whole", each), rows.get());
  train(whole.get());
  log.cancelled = cut.get();
  Error error;
  ASSERT_EQ(trl_trainer_train(cut.get(), nullptr, nullptr, error), TRL_E_CANCELLED) << error.message();
  EXPECT_EQ(steps(samples(scratch, "cut")), Steps{1});
  EXPECT_EQ(host::state(cut.get())["global_step"], 2);
  train(cut.get());
  EXPECT_EQ(host::read_file(scratch / "cut" / "samples.jsonl"),
            host::read_file(scratch / "whole" / "samples.jsonl"));
  EXPECT_EQ(history(cut.get()), history(whole.get()));
  EXPECT_TRUE(weights(cut.get(), scratch) == weights(whole.get(), scratch));
}

TEST(Samples, OfAFileWithRowsOfEveryForm) {
  NEED_MODEL();
  const host::Scratch scratch;
  host::write_file(scratch / "p.jsonl",
                   "{\"text\": \"It opens today\"}\n"
                   "{\"messages\": [{\"role\": \"user\", \"content\": \"What does it do?\"}, "
                   "{\"role\": \"assistant\", \"content\": \"Nothing.\"}]}\n"
                   "{\"prompt\": \"It opens today\"}\n"
                   "{\"prompt\": [{\"role\": \"user\", \"content\": \"What does it do?\"}], \"n\": 1}\n");
  host::write_file(scratch / "p.txt", "It opens today\n\nWhat does it do?\n");
  const auto rows = texts();
  const auto taken = [&](const std::string& file) {
    train(host::trainer(sampled(scratch, file + "_out", {{"sample_prompts", (scratch / file).string()}}),
                        rows.get())
              .get());
    return samples(scratch, file + "_out");
  };
  const std::vector<Json> all = taken("p.jsonl");
  EXPECT_EQ(steps(all), (Steps{4, 4}));  // no evaluation and no checkpoint: at the end
  EXPECT_EQ(all[0], all[2]);
  EXPECT_EQ(all[1], all[3]);
  const std::vector<Json> lines = taken("p.txt");
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0], all[0]);
  EXPECT_EQ(lines[1]["prompt"], "What does it do?");
}

// Every completion is what a generator of the same weights gives for the same options.
TEST(Samples, AreChosenAsTheOptionsOfGenerationSay) {
  NEED_MODEL();
  const host::Scratch scratch;
  const auto rows = texts();
  const Settings options = {{"generate.temperature", "1.5"}, {"generate.top_k", "40"},
                            {"generate.min_p", "0.001"},     {"generate.repetition_penalty", "1.2"},
                            {"generate.seed", "5"},          {"generate.stop", "[\" e\"]"},
                            {"generate.max_new_tokens", "9"}};
  const auto taken = [&](const std::string& name, const Settings& more) {
    Settings settings = {{"sample_prompts", R"(["It opens today", "What does it do?"])"}};
    for (const auto& pair : sampled(scratch, name))
      if (pair.first != "sample_max_new_tokens" && pair.first != "sample_prompts") settings.push_back(pair);
    const auto trainer = host::trainer(host::with(settings, more), rows.get());
    train(trainer.get());
    const host::Generator generator = host::generator_of(trainer.get());
    const char* const prompts[] = {"It opens today", "What does it do?"};
    trl_completions* completions = nullptr;
    Error error;
    EXPECT_EQ(trl_generator_generate(generator.get(), prompts, nullptr, 2, host::config(more).get(), nullptr,
                                     nullptr, &completions, error),
              TRL_OK)
        << error.message();
    const host::Completions held(completions);
    const std::vector<Json> all = samples(scratch, name);
    for (size_t i = 0; i < all.size(); ++i) {
      size_t size = 0;
      const char* const text = trl_completions_text(completions, i, &size);
      EXPECT_EQ(all[i]["completion"], std::string(text, size)) << name << " " << i;
      EXPECT_EQ(all[i]["prompt"], prompts[2 * i / all.size()]);
    }
    return all;
  };
  EXPECT_EQ(taken("one", options).size(), 2u);
  const std::vector<Json> several =
      taken("several", host::with(options, {{"generate.num_return_sequences", "3"}}));
  ASSERT_EQ(several.size(), 6u);
  EXPECT_NE(several[0]["completion"], several[1]["completion"]);
}

// They are refused before the first step, not when the samples are due.
TEST(Samples, OptionsThatDoNotSuitTheModelAreRefusedByName) {
  NEED_MODEL();
  const host::Scratch scratch;
  const auto rows = texts();
  for (const auto& [key, value, text] :
       {std::tuple{"generate.stop_token_ids", "[5, 512]", "id 512 is not in the vocabulary of 512 ids"},
        {"generate.eos_token_id", "[600]", "id 600 is not in the vocabulary of 512 ids"},
        {"generate.logit_bias", "{512: 1}", "id 512 is not in the vocabulary of 512 ids"},
        {"generate.min_new_tokens", "7", "at most max_new_tokens, which is 6"},
        {"generate.num_return_sequences", "2", "needs generate.temperature above 0"}}) {
    SCOPED_TRACE(key);
    trl_trainer* made = nullptr;
    Error error;
    const host::Config config = host::config(sampled(scratch, "out", {{key, value}}));
    EXPECT_EQ(trl_trainer_create(nullptr, config.get(), rows.get(), nullptr, &made, error),
              TRL_E_INVALID_CONFIG);
    EXPECT_EQ(error.key(), key);
    EXPECT_TRUE(error.message().starts_with(key) && error.names(text)) << error.message();
  }
  trl_trainer* made = nullptr;
  Error error;
  const host::Config config = host::config(sampled(scratch, "out", {{"generate.adapter", "other"}}));
  EXPECT_EQ(trl_trainer_create(nullptr, config.get(), rows.get(), nullptr, &made, error), TRL_E_NOT_FOUND);
  EXPECT_TRUE(error.names("no adapter \"other\"")) << error.message();
}

TEST(Samples, WhatIsNotAPromptIsRefusedByName) {
  NEED_MODEL();
  const host::Scratch scratch;
  const auto rows = texts();
  host::write_file(scratch / "empty.txt", "\n\n");
  host::write_file(scratch / "wrong.jsonl", "{\"prompt\": \"one\"}\n{\"question\": \"two\"}\n");
  std::string long_prompt;
  for (int i = 0; i < 300; ++i) long_prompt += "it ";
  const std::vector<std::pair<std::string, std::string>> refused = {
      {"[]", "the list is empty"},
      {"[one, \"\"]", "prompt 2: the prompt is empty"},
      {"[[]]", "prompt 1: a prompt is a text or a list of messages"},
      {"[[one]]", "prompt 1: a prompt is a text or a list of messages"},
      {(scratch / "none.jsonl").string(), "none.jsonl' does not exist"},
      {(scratch / "empty.txt").string(), "empty.txt holds no prompt"},
      {(scratch / "wrong.jsonl").string(), "wrong.jsonl:2: it has no prompt, messages or text"},
      {"[\"" + long_prompt + "\"]", "goes beyond the 256 positions of the model"}};
  for (const auto& [value, text] : refused) {
    SCOPED_TRACE(text);
    trl_trainer* made = nullptr;
    Error error;
    const host::Config config = host::config(sampled(scratch, "out", {{"sample_prompts", value}}));
    EXPECT_LT(trl_trainer_create(nullptr, config.get(), rows.get(), nullptr, &made, error), TRL_OK);
    EXPECT_EQ(made, nullptr);
    EXPECT_EQ(error.key(), "sample_prompts");
    EXPECT_TRUE(error.message().starts_with("sample_prompts: ") && error.names(text)) << error.message();
  }
}

// A prompt and its completion may have all the positions that a stretched rotary embedding reaches.
TEST(Samples, MayBeAsLongAsAStretchedRopeReaches) {
  NEED_MODEL();
  const host::Scratch scratch;
  const std::filesystem::path model = scratch / "model";
  host::copy_model("models/qwen2", model);
  host::edit_config(model, [](Json& config) {
    config["rope_scaling"] = {{"rope_type", "linear"}, {"factor", 2.0}};
  });
  const auto rows = texts();
  for (const auto& [tokens, accepted] : {std::pair{506, true}, {507, false}}) {
    const std::string prompt = "[\"" + std::string(static_cast<size_t>(tokens), '7') + "\"]";
    trl_trainer* made = nullptr;
    Error error;
    const host::Config config =
        host::config(sampled(scratch, "out", {{"model_name_or_path", model}, {"sample_prompts", prompt}}));
    const trl_status status = trl_trainer_create(nullptr, config.get(), rows.get(), nullptr, &made, error);
    const host::Trainer trainer(made);
    EXPECT_EQ(status == TRL_OK, accepted) << error.message();
    EXPECT_TRUE(accepted || error.names("goes beyond the 512 positions")) << error.message();
  }
}

}  // namespace
