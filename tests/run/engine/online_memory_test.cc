// What methods that write completions take: nothing grows with tokens x vocabulary or with steps, and a plan
// says what it is. Each test has a process of its own, for it compares what this takes at most.
#include <cstdlib>
#include <cstring>

#include "engine/rewarded.h"
#include "support/resident.h"

namespace online_memory_test {
namespace {

using host::Error;
using host::Json;
using host::Settings;

#define NEED_MODEL() NEED_GOLDEN("models/qwen2/model.safetensors")

// With AddressSanitizer, what is freed stays for a while.
#ifdef __SANITIZE_ADDRESS__
#define NEED_FREED_MEMORY() GTEST_SKIP() << "AddressSanitizer keeps for a while what is freed"
#else
#define NEED_FREED_MEMORY()
#endif

int64_t most_counted() {
  const auto runtime = host::runtime();
  int64_t peak = 0;
  EXPECT_EQ(trl_runtime_memory(runtime.get(), nullptr, nullptr, &peak, nullptr), TRL_OK);
  return peak;
}

void write_safetensors(const std::filesystem::path& path,
                       const std::map<std::string, host::Tensor>& tensors) {
  Json header = Json::object();
  std::string data;
  for (const auto& [name, tensor] : tensors) {
    const size_t begin = data.size();
    data.append(reinterpret_cast<const char*>(tensor.values.data()), tensor.values.size() * sizeof(float));
    header[name] = {{"dtype", "F32"}, {"shape", tensor.shape}, {"data_offsets", {begin, data.size()}}};
  }
  const std::string text = header.dump();
  const uint64_t size = text.size();
  std::string bytes(sizeof size, '\0');
  std::memcpy(bytes.data(), &size, sizeof size);
  host::write_file(path, bytes + text + data);
}

constexpr int64_t kVocabulary = int64_t{1} << 16, kCompletion = 64;

// Writes a recorded model whose table of tokens, which is its head too, has kVocabulary rows.
void write_wide_model(const std::filesystem::path& to) {
  host::copy_model("models/qwen2", to);
  host::edit_config(to, [](Json& config) { config["vocab_size"] = kVocabulary; });
  auto tensors = host::read_safetensors(to / "model.safetensors");
  host::Tensor& table = tensors.at("model.embed_tokens.weight");
  const std::vector<float> some = table.values;
  table.shape[0] = kVocabulary;
  table.values.resize(static_cast<size_t>(kVocabulary * table.shape[1]));
  for (size_t i = some.size(); i < table.values.size(); ++i) table.values[i] = some[i % some.size()] / 2;
  write_safetensors(to / "model.safetensors", tensors);
}

// Prompts; or conversations, whose answers have as many tokens as completions: a digit is a token.
std::string rows_of(bool conversations, int64_t count) {
  std::string rows;
  for (int64_t row = 0; row < count; ++row) {
    const std::string prompt = "Name " + std::to_string(row);
    const Json asked = {{"role", "user"}, {"content", prompt}},
               answer = {{"role", "assistant"}, {"content", std::string(kCompletion, '7')}};
    Json line = {{"prompt", prompt}};
    if (conversations) line = {{"messages", Json::array({asked, answer})}};
    rows += line.dump() + '\n';
  }
  return rows;
}

std::string completions_of(int64_t count) {
  std::string lines;
  for (int64_t row = 0; row < count; ++row) {
    std::vector<int64_t> ids;
    for (int64_t i = 0; i < kCompletion; ++i) ids.push_back(3 + (row * 7919 + i * 104729) % 250);
    lines += Json({{"completion_ids", ids}}).dump() + '\n';
  }
  return lines;
}

struct PeakCase {
  const char* name;
  const char* method;
  const char* length;  // the key
  Settings more = {};
  int64_t sequences = 1;  // completions for each row of a micro-batch
  bool rewarded = true, taught = false;
};

void PrintTo(const PeakCase& own, std::ostream* out) { *out << own.name; }

// An update on one micro-batch with so many completions.
void update(const PeakCase& own, const std::string& model, const host::Scratch& scratch,
            int64_t completions) {
  const std::string name = std::to_string(completions), file = scratch / (name + ".jsonl"),
                    batch = std::to_string(completions / own.sequences), length = std::to_string(kCompletion);
  const bool conversations = std::string_view(own.method) == "gkd";
  Settings settings = {
      {"model_name_or_path", model}, {"method", own.method}, {"per_device_train_batch_size", batch},
      {own.length, length},          {"max_steps", "1"},     {"save_strategy", "no"}};
  if (own.taught) settings.emplace_back("teacher_model_name_or_path", model);
  if (!conversations) {
    host::write_file(file, completions_of(completions));
    settings.emplace_back("replay_rollouts", file);
  }
  const host::Dataset rows = host::rows(rows_of(conversations, completions));
  const host::Trainer trainer = host::trainer(
      host::with(host::with(host::tiny(scratch / ("out" + name)), settings), own.more), rows.get());
  Error error;
  host::Function reward = host::reward_all;
  if (own.rewarded) {
    ASSERT_EQ(trl_trainer_add_reward(trainer.get(), "points", host::call, &reward, nullptr, error), TRL_OK)
        << error.message();
  }
  ASSERT_EQ(trl_trainer_step(trainer.get(), nullptr, error), TRL_OK) << error.message();
}

class OnlinePeak : public testing::TestWithParam<PeakCase> {};

TEST_P(OnlinePeak, HasNoTermInTokensTimesVocabulary) {
  NEED_MODEL();
  NEED_FREED_MEMORY();
  const host::Scratch scratch;
  const std::string model = scratch / "model";
  write_wide_model(model);
  // The tiles of the head are full: of 64 MiB, which are 256 rows.
  constexpr int64_t kFew = 8, kLogits = kFew * kCompletion * kVocabulary * 4;
  update(GetParam(), model, scratch, kFew);
  const int64_t few = most_counted();
  update(GetParam(), model, scratch, 2 * kFew);
  EXPECT_LT(most_counted() - few, kLogits / 4) << few << " bytes of " << kFew << " completions";
}

INSTANTIATE_TEST_SUITE_P(
    Trainers, OnlinePeak,
    testing::Values(
        PeakCase{"grpo", "grpo", "max_completion_length", {{"num_generations", "4"}}},
        PeakCase{"entropy_quantile",
                 "grpo",
                 "max_completion_length",
                 {{"num_generations", "4"}, {"top_entropy_quantile", "0.2"}, {"beta", "0.1"}}},
        PeakCase{"rloo", "rloo", "max_completion_length", {{"num_generations", "4"}}},
        PeakCase{"online_dpo", "online_dpo", "max_new_tokens", {}, 2},
        PeakCase{"ppo", "ppo", "response_length"},
        PeakCase{"gkd", "gkd", "max_new_tokens", {{"lmbda", "0"}}, 1, false, true},
        PeakCase{"distillation", "distillation", "max_completion_length", {{"beta", "0.5"}}, 1, false, true}),
    [](const auto& own) { return own.param.name; });

// The first half of the steps takes as much as any later one, and a plan knows how much.
void expect_flat(const Settings& more) {
  const char* const text = std::getenv("TRL_TEST_FLAT_STEPS");
  const int64_t steps = text != nullptr ? std::stoll(text) : 12;
  const host::Scratch scratch;
  const Settings own = {{"num_generations", "8"},        {"per_device_train_batch_size", "16"},
                        {"max_completion_length", "64"}, {"generation_kwargs", "{ignore_eos: true}"},
                        {"kv_cache_memory", "2MB"},      {"learning_rate", "1e-4"},
                        {"logging_strategy", "no"},      {"max_steps", std::to_string(steps)},
                        {"estimate.compare", "[]"}};
  const Settings settings = host::grpo(scratch / "out", host::with(own, more));
  int64_t half = 0, half_resident = 0;
  {
    host::Rewarded run(settings, host::reward_all);
    ASSERT_TRUE(trl::test::reset_most_resident());
    for (int64_t step = 1; step <= steps; ++step) {
      ASSERT_EQ(trl_trainer_step(run.trainer.get(), nullptr, run.error), TRL_OK) << run.error.message();
      if (step != steps / 2) continue;
      half = most_counted();
      half_resident = trl::test::resident("VmHWM");
    }
  }
  const int64_t measured = most_counted();  // before plans measure times
  EXPECT_LE(measured, half + half / 50);
  // oneDNN's primitives of new lengths
  EXPECT_LE(trl::test::resident("VmHWM"), half_resident + half_resident / 50 + (int64_t{6} << 20));
  const auto runtime = host::runtime();
  const host::Dataset rows = host::rows(host::kPrompts);
  const char* json = nullptr;
  Error error;
  ASSERT_EQ(trl_trainer_plan(runtime.get(), host::config(settings).get(), rows.get(), &json, nullptr, error),
            TRL_OK)
      << error.message();
  const double planned = host::parse(json).at("counted_bytes");
  EXPECT_LE(static_cast<double>(measured), 1.05 * planned);
  EXPECT_GE(static_cast<double>(measured), 0.95 * planned);
}

TEST(FlatMemory, OverStepsOfAllWeights) {
  NEED_MODEL();
  NEED_FREED_MEMORY();
  expect_flat({});
}

TEST(FlatMemory, OverStepsOfAnAdapter) {
  NEED_MODEL();
  NEED_FREED_MEMORY();
  expect_flat({{"use_peft", "true"}, {"lora_r", "8"}, {"lora_target_modules", "all-linear"}});
}

}  // namespace
}  // namespace online_memory_test
