// trl_trainer_plan: what a run will take, told before it is made.
#include <unistd.h>

#include <filesystem>

#include "engine/run.h"

namespace {

using host::Error;
using host::Json;
using host::plan;

#define NEED_MODEL() NEED_GOLDEN("models/qwen2/model.safetensors")

double bytes(const Json& plan, const std::string& term) {
  for (const Json& of : plan.at("terms")) {
    if (of.at("name") == term) return of.at("most_bytes");
  }
  return 0;
}

// From then on plans have no start of the process.
void open_a_model() { host::open_model(host::golden("models/qwen2")); }

host::Settings tiny(const host::Scratch& scratch) {
  return host::with(host::tiny(scratch / "out"), {{"max_length", "256"}});
}

TEST(Plan, HasEachTermAndMakesNothing) {
  NEED_MODEL();
  const host::Scratch scratch;
  std::string text;
  const Json found = plan(tiny(scratch), nullptr, &text);
  const double trained = found.at("trained_parameters");
  EXPECT_EQ(found.at("parameters"), found.at("trained_parameters"));
  // float32: four bytes of each, and two moments of Adam; blocks are rounded up.
  EXPECT_NEAR(bytes(found, "weights"), 4 * trained, 0.05 * 4 * trained + 100000);
  EXPECT_NEAR(bytes(found, "gradients"), 4 * trained, 0.02 * 4 * trained + 100000);
  EXPECT_NEAR(bytes(found, "optimizer state"), 8 * trained, 0.02 * 8 * trained + 100000);
  EXPECT_GT(bytes(found, "activations kept for backward"), 0);
  double sum = 0;
  for (const Json& term : found.at("terms")) sum += term.at("bytes").get<double>();
  EXPECT_EQ(sum, found.at("peak_bytes").get<double>());
  EXPECT_EQ(found.at("tokens_per_step"), 4 * 256);
  EXPECT_EQ(found.at("steps"), 8);
  EXPECT_GT(found.at("seconds").get<double>(), 0);
  const Json& disk = found.at("disk");
  EXPECT_EQ(disk.at("model_bytes"), 4 * trained);
  EXPECT_EQ(disk.at("checkpoint_bytes"), 12 * trained);
  EXPECT_GT(disk.at("free_bytes").get<double>(), 0);
  EXPECT_NE(text.find("optimizer state"), std::string::npos) << text;
  EXPECT_FALSE(std::filesystem::exists(scratch / "out"));
}

// Of a small run it is the most, and passes where a model was opened.
TEST(Plan, TheStartOfTheProcessCountsOnce) {
  NEED_MODEL();
  const host::Scratch scratch;
  const auto start = [&] { return bytes(plan(tiny(scratch)), "start of the process"); };
  const double before = start();
  EXPECT_EQ(start() > 0, before > 0);
  open_a_model();
  EXPECT_EQ(start(), 0);
}

TEST(Plan, OptionsChangeTheirOwnTerms) {
  NEED_MODEL();
  const host::Scratch scratch;
  const Json kept = plan(tiny(scratch));
  const Json again = plan(host::with(tiny(scratch), {{"gradient_checkpointing", "true"}}));
  EXPECT_LT(bytes(again, "activations kept for backward"), bytes(kept, "activations kept for backward"));
  EXPECT_EQ(bytes(again, "optimizer state"), bytes(kept, "optimizer state"));
  // The other way is among the alternatives of each.
  EXPECT_EQ(kept.at("alternatives")[0].at("options"), "gradient_checkpointing: true");
  EXPECT_EQ(bytes(kept.at("alternatives")[0], "activations kept for backward"),
            bytes(again, "activations kept for backward"));
  const Json adapter = plan(host::with(tiny(scratch), {{"use_peft", "true"}}));
  EXPECT_LT(adapter.at("trained_parameters").get<double>(),
            0.2 * kept.at("trained_parameters").get<double>());
  EXPECT_LT(bytes(adapter, "optimizer state"), 0.2 * bytes(kept, "optimizer state"));
  const Json shorter = plan(host::with(tiny(scratch), {{"max_length", "64"}}));
  EXPECT_LT(bytes(shorter, "activations kept for backward"),
            0.4 * bytes(kept, "activations kept for backward"));
}

// Four rows of 256 tokens, at two of them together.
TEST(Plan, PartsOfAMicroBatchTakeLess) {
  NEED_MODEL();
  const host::Scratch scratch;
  const Json whole = plan(tiny(scratch));
  const Json parts = plan(host::with(tiny(scratch), {{"max_tokens_per_pass", "512"}}));
  EXPECT_EQ(parts.at("tokens_per_step"), whole.at("tokens_per_step"));
  EXPECT_LT(bytes(parts, "activations kept for backward"),
            0.6 * bytes(whole, "activations kept for backward"));
  const auto of_run = [](const Json& plan) {
    return plan.at("peak_bytes").get<double>() - plan.at("process_bytes").get<double>();
  };
  EXPECT_LT(of_run(parts), of_run(whole));
  EXPECT_EQ(bytes(parts, "gradients"), bytes(whole, "gradients"));
}

TEST(Plan, AdaptersAndTheKvCacheAreTermsOfTheirOwn) {
  NEED_MODEL();
  const host::Scratch scratch;
  std::string text;
  const Json full = plan(tiny(scratch)), lora = plan(host::with(tiny(scratch), {{"use_peft", "true"}}));
  EXPECT_EQ(bytes(full, "adapters"), 0);
  const double trained = lora.at("trained_parameters");
  EXPECT_NEAR(bytes(lora, "adapters"), 4 * trained, 0.1 * 4 * trained);
  EXPECT_EQ(bytes(lora, "weights"), bytes(full, "weights"));
  const Json qlora =
      plan(host::with(tiny(scratch),
                      {{"use_peft", "true"}, {"load_in_4bit", "true"}, {"bnb_4bit_quant_type", "nf4"}}),
           nullptr, &text);
  EXPECT_NEAR(bytes(qlora, "adapters"), 2 * trained, 0.2 * 2 * trained);  // bfloat16
  EXPECT_LT(bytes(qlora, "weights"), bytes(lora, "weights"));
  for (const Json& of : {full, lora, qlora}) {
    EXPECT_GT(bytes(of, "gradients"), 0);
    EXPECT_GT(bytes(of, "optimizer state"), 0);
    EXPECT_GT(bytes(of, "activations kept for backward"), 0);
    EXPECT_GT(bytes(of, "loss workspace"), 0);
  }
  const Json config = host::parse(host::read_file(host::golden("models/qwen2/config.json")));
  const double heads = config.at("num_key_value_heads"),
               size = config.at("hidden_size").get<double>() / config.at("num_attention_heads").get<double>(),
               layers = config.at("num_hidden_layers");
  EXPECT_EQ(full.at("kv_cache").at("tokens"), 256);
  EXPECT_EQ(full.at("kv_cache").at("bytes"), 256 * layers * 2 * heads * size * 4);
  EXPECT_NE(text.find("KV cache "), std::string::npos) << text;
}

// What a model takes when it merges the adapter that such a run saves.
TEST(Plan, SaysWhatMergingTheAdapterTakes) {
  NEED_MODEL();
  const host::Scratch scratch;
  const host::Settings settings = host::with(
      tiny(scratch),
      {{"use_peft", "true"}, {"lora_target_modules", "all-linear"}, {"lora_r", "4"}, {"max_steps", "1"}});
  Error error;
  {
    const auto rows = host::open_rows(host::golden("data/datasets/train_lm.jsonl"));
    const auto trainer = host::trainer(settings, rows.get());
    ASSERT_EQ(trl_trainer_train(trainer.get(), nullptr, nullptr, error), TRL_OK) << error.message();
    ASSERT_EQ(trl_trainer_save(trainer.get(), nullptr, nullptr, error), TRL_OK) << error.message();
  }
  const auto runtime = host::runtime();
  const auto weights = [&] {
    int64_t bytes = 0;
    EXPECT_EQ(trl_runtime_memory(runtime.get(), "weights", &bytes, nullptr, nullptr), TRL_OK);
    return bytes;
  };
  int64_t taken = 0;
  {
    const auto model = host::open_model(host::golden("models/qwen2"), {{"dtype", "float32"}});
    const std::string saved = scratch / "out";
    ASSERT_EQ(trl_model_add_adapter(model.get(), "mine", saved.c_str(), error), TRL_OK) << error.message();
    taken = -weights();
    ASSERT_EQ(trl_model_merge_adapter(model.get(), "mine", error), TRL_OK) << error.message();
    taken += weights();
  }
  std::string text;
  const Json found = plan(settings, nullptr, &text), &merge = found.at("merge");
  EXPECT_GT(taken, 0);
  // and what is used while a matrix is merged
  EXPECT_GE(merge.at("bytes").get<int64_t>(), taken);
  EXPECT_LT(merge.at("bytes").get<double>(), 1.5 * static_cast<double>(taken));
  EXPECT_NEAR(merge.at("save_bytes").get<double>(), merge.at("bytes").get<double>(),
              0.05 * static_cast<double>(taken));
  EXPECT_GT(merge.at("peak_bytes").get<double>(),
            found.at("process_bytes").get<double>() + merge.at("save_bytes").get<double>());
  EXPECT_NE(text.find("merging "), std::string::npos) << text;
  EXPECT_FALSE(plan(tiny(scratch)).contains("merge"));
  const Json blocks = plan(host::with(settings, {{"load_in_4bit", "true"}})).at("merge");
  EXPECT_LT(blocks.at("save_bytes"), blocks.at("bytes"));
}

TEST(Plan, AnEvaluationCounts) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "under AddressSanitizer the process itself is larger than the run";
#endif
  NEED_MODEL();
  const host::Scratch scratch;
  open_a_model();
  const host::Settings again = host::with(tiny(scratch), {{"gradient_checkpointing", "true"}});
  const Json without = plan(again);
  const Json with =
      plan(host::with(again, {{"eval_strategy", "steps"}, {"per_device_eval_batch_size", "64"}}));
  EXPECT_GT(with.at("peak_bytes").get<double>(), 1.2 * without.at("peak_bytes").get<double>());
  EXPECT_GT(bytes(with, "evaluation"), 0);
}

TEST(Plan, StatesInAFileTakeDiskAndMakeNone) {
  NEED_MODEL();
  const host::Scratch scratch;
  std::string text;
  const Json found = plan(host::with(tiny(scratch), {{"optim", "paged_adamw_32bit"},
                                                     {"activation_offloading", "true"},
                                                     {"offload_dir", TRL_SOURCE_DIR "/not_there"}}),
                          nullptr, &text);
  const double trained = found.at("trained_parameters");
  EXPECT_NEAR(found.at("disk").at("offloaded_state_bytes").get<double>(), 8 * trained, 0.05 * 8 * trained);
  EXPECT_GT(found.at("disk").at("offloaded_activation_bytes").get<double>(), 0);
  EXPECT_EQ(bytes(found, "optimizer state"), 0);
  EXPECT_NEAR(bytes(found, "optimizer state, as pages of its file"), 8 * trained, 0.05 * 8 * trained);
  EXPECT_FALSE(std::filesystem::exists(TRL_SOURCE_DIR "/not_there"));
  EXPECT_NE(text.find("for what leaves memory"), std::string::npos) << text;
}

TEST(Plan, WeightsThatStayInTheirFileCount) {
  NEED_MODEL();
  const host::Scratch scratch;
  const std::string file = scratch / "model.gguf";
  Error error;
  ASSERT_EQ(trl_model_convert(host::runtime().get(), host::golden("models/qwen2").c_str(), file.c_str(),
                              host::config({{"convert.type", "q8_0"}}).get(), error),
            TRL_OK)
      << error.message();
  const host::Settings peft = host::with(tiny(scratch), {{"model_name_or_path", file}, {"use_peft", "true"}});
  const Json numbers = plan(peft), kept = plan(host::with(peft, {{"dtype", "keep"}}));
  EXPECT_EQ(bytes(numbers, "weights, as pages of the model's file"), 0);
  // 34 bytes of a block of 32; some rows are not a multiple of that, and have two bytes a number
  const double pages = bytes(kept, "weights, as pages of the model's file"), all = bytes(numbers, "weights");
  EXPECT_NEAR(pages, all / 4 * 34 / 32, 0.2 * pages);
  EXPECT_LT(bytes(kept, "weights"), 0.1 * all);
  EXPECT_LT(pages, static_cast<double>(std::filesystem::file_size(file)));
}

TEST(Plan, FrozenLayersThatAreKeptCount) {
  NEED_MODEL();
  const host::Scratch scratch;
  const host::Settings upper =
      host::with(tiny(scratch), {{"use_peft", "true"}, {"peft_config", R"({"layers_to_transform": [1]})"}});
  const Json without = plan(upper),
             with = plan(host::with(upper, {{"cache_frozen_layers", scratch / "cache"}}));
  // The states of a batch, which a forward begins with: 4 rows of 256 tokens of 64 numbers.
  const Json config = host::parse(host::read_file(host::golden("models/qwen2/config.json")));
  EXPECT_NE(bytes(with, "activations kept for backward"), bytes(without, "activations kept for backward"));
  EXPECT_GE(bytes(with, "activations kept for backward"),
            4 * 256 * config.at("hidden_size").get<double>() * 4);
  EXPECT_FALSE(std::filesystem::exists(scratch / "cache"));
}

// All rows are kept, however many of them the steps see.
TEST(Plan, FrozenStatesOfAllRowsCountWhereStepsAreGiven) {
  NEED_MODEL();
  const host::Scratch scratch;
  const auto rows = host::open_rows(host::golden("data/datasets/train_lm.jsonl"));
  const auto states = [&](const char* steps, const char* epochs) {
    return plan(host::with(tiny(scratch),
                           {{"use_peft", "true"},
                            {"peft_config", R"({"target_modules": ["q_proj"], "layers_to_transform": [1]})"},
                            {"cache_frozen_layers", scratch / "states"},
                            {"max_steps", steps},
                            {"num_train_epochs", epochs}}),
                rows.get())
        .at("disk")
        .at("frozen_states_bytes")
        .get<double>();
  };
  EXPECT_GT(states("-1", "1"), 0);
  EXPECT_EQ(states("3", "1"), states("-1", "1"));
  EXPECT_EQ(states("-1", "0.5"), states("-1", "1"));
}

TEST(Plan, RowsSayHowLongTheyAre) {
  NEED_MODEL();
  const host::Scratch scratch;
  const auto rows = host::rows(host::read_file(host::golden("data/datasets/train_lm.jsonl")));
  const Json found =
      plan(host::with(tiny(scratch), {{"max_length", "100000"}, {"max_steps", "-1"}}), rows.get());
  EXPECT_LT(found.at("tokens_per_step").get<double>(), 100000);
  EXPECT_GT(found.at("steps").get<double>(), 0);
}

// GPT-2's positions are learned: no row has more, whatever max_length says.
TEST(Plan, RowsAreNoLongerThanLearnedPositions) {
  NEED_GOLDEN("models/gpt2/model.safetensors");
  const host::Scratch scratch;
  const auto of = [&](const host::Settings& more) {
    return plan(host::with(host::tiny(scratch / "out", "models/gpt2"), more));
  };
  open_a_model();
  const Json most = of({{"max_length", "256"}}), more = of({{"max_length", "1024"}});
  EXPECT_EQ(more.at("row_tokens"), 256);
  for (const char* key : {"tokens_per_step", "counted_bytes", "kv_cache"})
    EXPECT_EQ(more.at(key), most.at(key));
  // The documents of a packed row are no longer either, but the row is.
  const Json packed = of({{"max_length", "1024"}, {"packing", "true"}});
  EXPECT_EQ(packed.at("tokens_per_step"), 4 * 1024);
  const Json budget = of({{"max_length", "1024"}, {"memory_budget", "1TB"}});
  EXPECT_EQ(budget.at("row_tokens"), 256);
}

// A disk that holds no terabytes.
TEST(Plan, ADiskWithoutRoomIsToldAsTheRunTellsIt) {
  NEED_MODEL();
  const host::Scratch scratch;
  const auto rows = host::rows(host::read_file(host::golden("data/datasets/train_lm.jsonl")));
  const host::Settings many = host::with(
      tiny(scratch), {{"max_steps", "2000000000"}, {"save_steps", "1"}, {"save_strategy", "steps"}});
  EXPECT_FALSE(plan(tiny(scratch)).at("disk").contains("refused"));
  const Json refused = plan(many, rows.get()).at("disk").at("refused");
  trl_trainer* made = nullptr;
  Error error;
  EXPECT_EQ(trl_trainer_create(nullptr, host::config(many).get(), rows.get(), nullptr, &made, error),
            TRL_E_IO);
  EXPECT_EQ(refused.at("key"), error.key());
  const auto needs = [](const std::string& message) {
    return message.substr(0, message.find(", and the disk"));
  };
  EXPECT_EQ(needs(refused.at("message")), needs(error.message()));
  EXPECT_NE(needs(error.message()).find("2000000000 checkpoints of "), std::string::npos) << error.message();
}

TEST(Plan, KnowsWhatMemoryThereIs) {
  NEED_MODEL();
  const host::Scratch scratch;
  const Json few = plan(tiny(scratch));
  EXPECT_GT(few.at("room").at("machine_bytes").get<double>(), few.at("peak_bytes").get<double>());
  EXPECT_FALSE(few.at("room").contains("warning"));
  // All logits and activations of this many tokens are more than any machine has.
  const Json many = plan(host::with(tiny(scratch), {{"max_length", "6000000"},
                                                    {"per_device_train_batch_size", "1"},
                                                    {"estimate.compare", "[]"},
                                                    {"gradient_checkpointing", "false"}}));
  const double room = std::min(many.at("room").at("machine_bytes").get<double>(),
                               many.at("room").value("cgroup_bytes", 1e18));
  EXPECT_EQ(many.at("room").contains("warning"), many.at("peak_bytes").get<double>() > room);
}

// Rows of several sequences are counted as the run counts them.
TEST(Plan, PairsSayHowLongTheyAre) {
  NEED_MODEL();
  const std::string pairs = host::read_file(host::golden("data/datasets/train_pref.jsonl"));
  for (const char* method : {"dpo", "reward", "kto"}) {
    SCOPED_TRACE(method);
    const host::Scratch scratch;
    const auto rows = host::rows(pairs);
    const host::Settings settings =
        host::with(tiny(scratch), {{"method", method}, {"max_steps", "-1"}, {"num_train_epochs", "1"}});
    const Json found = plan(settings, rows.get());
    const auto run = host::trainer(settings, rows.get());
    Error error;
    ASSERT_EQ(trl_trainer_train(run.get(), nullptr, nullptr, error), TRL_OK) << error.message();
    const Json state = host::state(run.get());
    EXPECT_EQ(found.at("steps"), state.at("global_step"));
    const Json& last = state.at("log_history").at(state.at("log_history").size() - 2);
    EXPECT_EQ(found.at("tokens"), last.at("num_tokens"));
    EXPECT_EQ(found.at("row_tokens").get<double>() * 4 * (method == std::string("kto") ? 1 : 2),
              found.at("tokens_per_step"));
  }
}

TEST(Plan, WritesAPageThatNeedsNoOtherFile) {
  NEED_MODEL();
  const host::Scratch scratch;
  plan(host::with(tiny(scratch), {{"estimate.report", scratch / "plan.html"}}));
  const std::string page = host::read_file(scratch / "plan.html");
  EXPECT_NE(page.find("<svg"), std::string::npos);
  EXPECT_NE(page.find("optimizer state"), std::string::npos);
  EXPECT_EQ(page.find("src="), std::string::npos);
  EXPECT_EQ(page.find("href="), std::string::npos);
}

TEST(Plan, HasTheMembersThatTheHeaderNames) {
  NEED_MODEL();
  const host::Scratch scratch;
  const Json found =
      plan(host::with(tiny(scratch), {{"estimate.compare", "[optim=adamw_8bit, optim=none_such]"}}));
  for (const char* key : {"model", "rows", "row_tokens", "parameters", "trained_parameters", "peak_bytes",
                          "terms", "timeline", "tokens_per_step", "seconds_per_step", "tokens_per_second",
                          "steps", "tokens", "seconds", "disk", "alternatives"})
    EXPECT_TRUE(found.contains(key)) << key;
  EXPECT_EQ(found.at("rows"), 4);
  EXPECT_EQ(found.at("row_tokens"), 256);
  EXPECT_EQ(found.at("terms")[0].at("name"), "process");
  const size_t terms = found.at("terms").size();
  double most = 0;
  for (const Json& moment : found.at("timeline")) {
    ASSERT_EQ(moment.at("bytes").size(), terms);
    double sum = 0;
    for (const Json& bytes : moment.at("bytes")) sum += bytes.get<double>();
    most = std::max(most, sum);
    EXPECT_GE(moment.at("at").get<double>(), 0);
    EXPECT_LE(moment.at("at").get<double>(), 1);
  }
  EXPECT_EQ(most, found.at("peak_bytes").get<double>());
  std::vector<std::string> stages;
  for (const Json& moment : found.at("timeline")) {
    const std::string stage = moment.at("stage");
    if (std::find(stages.begin(), stages.end(), stage) == stages.end()) stages.push_back(stage);
  }
  EXPECT_EQ(stages, (std::vector<std::string>{"open", "forward", "loss", "backward", "optimizer"}));
  // The step ends with weights and states, not with a trainer that is gone.
  EXPECT_NE(found.at("timeline").back().at("stage"), "open");
  const Json& other = found.at("alternatives")[0];
  for (const auto& [key, value] : found.items())
    EXPECT_TRUE(other.contains(key) || key == "alternatives") << key;
  EXPECT_FALSE(other.contains("alternatives"));
}

TEST(Plan, ComparesTheSetsThatAreAskedFor) {
  NEED_MODEL();
  const host::Scratch scratch;
  std::string text;
  const Json found =
      plan(host::with(tiny(scratch), {{"estimate.compare",
                                       "[optim=adamw_8bit, optim=no_such gradient_checkpointing=true, "
                                       "{max_length: 64, max_steps: 3}, use_peft=true]"}}),
           nullptr, &text);
  const Json& sets = found.at("alternatives");
  ASSERT_EQ(sets.size(), 4u);
  EXPECT_EQ(sets[0].at("options"), "optim: adamw_8bit");
  EXPECT_LT(bytes(sets[0], "optimizer state"), bytes(found, "optimizer state"));
  // One that is refused has the reason in its place, and the next ones are unchanged.
  EXPECT_EQ(sets[1].at("options"), "optim: no_such, gradient_checkpointing: true");
  EXPECT_EQ(sets[1].at("refused").at("key"), "optim");
  EXPECT_NE(sets[1].at("refused").at("message").get<std::string>().find("no_such"), std::string::npos);
  EXPECT_FALSE(sets[1].contains("peak_bytes"));
  EXPECT_EQ(sets[2].at("row_tokens"), 64);
  EXPECT_EQ(sets[2].at("steps"), 3);
  EXPECT_LT(sets[3].at("trained_parameters").get<double>(), found.at("trained_parameters").get<double>());
  EXPECT_NE(text.find("refused: optim"), std::string::npos) << text;
  EXPECT_TRUE(plan(host::with(tiny(scratch), {{"estimate.compare", "[]"}})).at("alternatives").empty());
}

TEST(Plan, SetsOfOneRunDifferInItsOptions) {
  NEED_MODEL();
  const host::Scratch scratch;
  const auto rows = host::rows(host::read_file(host::golden("data/datasets/train_lm.jsonl")));
  const Json found =
      plan(host::with(tiny(scratch), {{"max_steps", "-1"},
                                      {"estimate.compare",
                                       "[optim=adamw_8bit, per_device_train_batch_size=2, max_length=16, "
                                       "dataset_name=gone.jsonl, runtime.threads=3, memory_budget=1MB]"}}),
           rows.get());
  const Json& sets = found.at("alternatives");
  EXPECT_EQ(sets[0].at("steps"), found.at("steps"));
  EXPECT_EQ(sets[1].at("steps").get<int>(), 2 * found.at("steps").get<int>());
  EXPECT_EQ(sets[2].at("row_tokens"), 16);
  EXPECT_LT(sets[2].at("tokens").get<double>(), found.at("tokens").get<double>());
  for (const auto& [set, key] : {std::pair{3, "dataset_name"}, {4, "runtime.threads"}, {5, "memory_budget"}})
    EXPECT_EQ(sets[set].at("refused").at("key"), key);
}

TEST(Plan, IsThatOfTheWayThatABudgetChooses) {
  NEED_MODEL();
  const host::Scratch scratch;
  const host::Settings settings = host::with(tiny(scratch), {{"estimate.compare", "[]"}});
  const auto runtime = host::runtime();
  const char* json = nullptr;
  Error error;
  EXPECT_EQ(
      trl_trainer_plan(runtime.get(), host::config(host::with(settings, {{"memory_budget", "1MB"}})).get(),
                       nullptr, &json, nullptr, error),
      TRL_E_INVALID_CONFIG);
  EXPECT_EQ(error.key(), "memory_budget");
  EXPECT_GT(plan(host::with(settings, {{"memory_budget", "1TB"}})).at("peak_bytes").get<double>(), 0);
}

TEST(Plan, KnowsBeforeTheWorkWhereItsPageGoes) {
  NEED_MODEL();
  const host::Scratch scratch;
  const auto runtime = host::runtime();
  const auto refused = [&](const std::string& path) {
    const char* json = nullptr;
    Error error;
    // No such model: the page is looked at first.
    EXPECT_LT(trl_trainer_plan(runtime.get(),
                               host::config(host::with(tiny(scratch), {{"model_name_or_path", "gone"},
                                                                       {"estimate.report", path}}))
                                   .get(),
                               nullptr, &json, nullptr, error),
              TRL_OK);
    EXPECT_EQ(json, nullptr);
    return error.key();
  };
  EXPECT_EQ(refused(scratch / "gone/plan.html"), "estimate.report");
  EXPECT_EQ(refused(scratch / ""), "estimate.report");
  if (geteuid() == 0) return;  // who may write everywhere
  std::filesystem::create_directory(scratch / "closed");
  std::filesystem::permissions(scratch / "closed", std::filesystem::perms(0555));
  EXPECT_EQ(refused(scratch / "closed/plan.html"), "estimate.report");
}

TEST(Plan, RefusesWhatItCannotTell) {
  NEED_MODEL();
  const host::Scratch scratch;
  const auto runtime = host::runtime();
  const auto refused = [&](const host::Settings& more) {
    const char* json = nullptr;
    Error error;
    EXPECT_EQ(trl_trainer_plan(runtime.get(), host::config(host::with(tiny(scratch), more)).get(), nullptr,
                               &json, nullptr, error),
              TRL_E_INVALID_CONFIG);
    EXPECT_EQ(json, nullptr);
    return error.key();
  };
  EXPECT_EQ(refused({{"max_length", "null"}}), "max_length");
  EXPECT_EQ(refused({{"per_device_train_batch_size", "100000000"}}), "per_device_train_batch_size");
  EXPECT_EQ(refused({{"fused_kernels", "off"}}), "fused_kernels");
  EXPECT_EQ(refused({{"model_name_or_path", "null"}}), "model_name_or_path");
}

}  // namespace
