// memory_budget: which way a run takes, that it keeps to it with the same result, and what happens where it
// cannot.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>

#include "engine/run.h"
#include "support/resident.h"

namespace {

using host::Error;
using host::Json;

#define NEED_MODEL() NEED_GOLDEN("models/qwen2/model.safetensors")

struct Lines {
  std::vector<std::string> all;
  static void write(void* data, int32_t, const char*, const char* text, size_t size) {
    static_cast<Lines*>(data)->all.emplace_back(text, size);
  }
  std::string find(std::string_view part) const {
    for (const std::string& line : all) {
      if (line.find(part) != std::string::npos) return line;
    }
    return {};
  }
};

// `rows` rows of `tokens` tokens each.
host::Dataset even_rows(int64_t rows, int64_t tokens) {
  std::vector<int64_t> ids(static_cast<size_t>(tokens));
  std::string lines;
  for (int64_t row = 0; row < rows; ++row) {
    for (size_t i = 0; i < ids.size(); ++i)
      ids[i] = static_cast<int64_t>(7 * i + 13 * static_cast<size_t>(row)) % 400;
    lines += Json({{"input_ids", ids}}).dump() + "\n";
  }
  return host::rows(lines);
}

host::Settings run_of(const host::Scratch& scratch, int64_t tokens) {
  return {{"model_name_or_path", host::golden("models/qwen2")},
          {"output_dir", scratch / "out"},
          {"save_strategy", "no"},
          {"bf16", "false"},
          {"train_sampling_strategy", "sequential"},
          {"per_device_train_batch_size", "4"},
          {"max_length", std::to_string(tokens)},
          {"logging_steps", "1"},
          {"max_steps", "2"}};
}

struct Ran {
  trl_status status = TRL_OK;
  std::string key, message;       // of an error
  std::string choice, peak, end;  // lines of the log
  std::vector<double> losses;
  Json last;  // record
};

Ran run(const host::Settings& settings, trl_dataset* rows) {
  const auto runtime = host::runtime();
  Lines lines;
  EXPECT_EQ(trl_runtime_set_log(runtime.get(), Lines::write, &lines, nullptr, nullptr), TRL_OK);
  trl_trainer* made = nullptr;
  Error error;
  Ran ran;
  ran.status = trl_trainer_create(runtime.get(), host::config(settings).get(), rows, nullptr, &made, error);
  const host::Trainer trainer(made);
  if (ran.status == TRL_OK) ran.status = trl_trainer_train(made, nullptr, nullptr, error);
  if (ran.status != TRL_OK) {
    ran.key = error.key();
    ran.message = error.message();
    return ran;
  }
  ran.choice = lines.find("are predicted");
  ran.peak = lines.find("a peak of");
  ran.end = lines.find("measured peak");
  const Json history = host::state(made).at("log_history");
  for (const Json& record : history) {
    if (record.contains("loss")) ran.losses.push_back(record.at("loss"));
  }
  ran.last = history.back();
  return ran;
}

Json plan_of(const host::Settings& settings) {
  const auto runtime = host::runtime();
  const char* json = nullptr;
  Error error;
  EXPECT_EQ(trl_trainer_plan(runtime.get(), host::config(settings).get(), nullptr, &json, nullptr, error),
            TRL_OK)
      << error.message();
  return json != nullptr ? host::parse(json) : Json{{"peak_bytes", 0}, {"counted_bytes", 0}};
}

double peak_of(const host::Settings& settings) { return plan_of(settings).at("peak_bytes"); }

std::string number(double bytes) { return std::to_string(static_cast<int64_t>(bytes)); }

bool has(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

// What a plan warns of when it is asked for a budget.
std::string warning(int64_t limit, const char* budget) {
  const host::Scratch scratch;
  const auto runtime = host::runtime();
  EXPECT_EQ(trl_runtime_set_memory_limit(runtime.get(), limit, nullptr), TRL_OK);
  Lines lines;
  EXPECT_EQ(trl_runtime_set_log(runtime.get(), Lines::write, &lines, nullptr, nullptr), TRL_OK);
  const auto settings = host::with(run_of(scratch, 64), {{"memory_budget", budget}});
  Error error;
  const char* json = nullptr;
  EXPECT_EQ(trl_trainer_plan(runtime.get(), host::config(settings).get(), nullptr, &json, nullptr, error),
            TRL_OK)
      << error.message();
  trl_runtime_set_memory_limit(runtime.get(), 0, nullptr);
  return lines.find("which counts in place of");
}

TEST(Budget, ANarrowerLimitCountsAndIsNamed) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "under AddressSanitizer the process itself is larger than the run";
#endif
  NEED_MODEL();
  constexpr int64_t kLimit = 1'000'000'000;
  EXPECT_EQ(warning(kLimit, "2GB"),
            "memory_budget: runtime.host_memory_limit allows 1 GB, which counts in place of 2 GB");
  EXPECT_EQ(warning(kLimit, "500MB"), "");
  const std::string of_group = warning(0, "1000000GB");  // none where no cgroup limits this process
  EXPECT_TRUE(of_group.empty() || of_group.starts_with("memory_budget: the cgroup of this process allows "))
      << of_group;
}

TEST(Budget, TheFastestWayThatFitsIsTaken) {
  NEED_MODEL();
  const host::Scratch scratch;
  const auto rows = even_rows(8, 64);
  const auto choice = [&](const host::Settings& more) {
    const Ran ran = run(host::with(run_of(scratch, 64), more), rows.get());
    EXPECT_EQ(ran.status, TRL_OK) << ran.message;
    return ran.choice;
  };
  EXPECT_EQ(choice({}), "");
  EXPECT_TRUE(has(choice({{"memory_budget", "1TiB"}}), "everything is kept"));
  EXPECT_TRUE(has(choice({{"memory_budget", "auto"}}), "everything is kept"));
  // A key that is set stays.
  const host::Settings again = {{"memory_budget", "1TB"}, {"gradient_checkpointing", "true"}};
  EXPECT_TRUE(has(choice(again), "computed again"));
  EXPECT_TRUE(has(choice(host::with(again, {{"recompute", "layers"}})), "whole layers"));
  // Under its newer name, too.
  EXPECT_TRUE(has(choice({{"memory_budget", "1TB"}, {"activation_checkpointing", "true"}}), "as configured"));
  // A form that contradicts what is set is none of the ways.
  EXPECT_TRUE(
      has(choice(host::with(again, {{"gradient_checkpointing_use_reentrant", "true"}})), "whole layers"));
}

// The smallest budget, as a refusal names it.
double smallest_of(const host::Settings& settings, trl_dataset* rows) {
  const Ran refused = run(host::with(settings, {{"memory_budget", "1MB"}}), rows);
  const size_t named = refused.message.find(", so ");
  EXPECT_NE(named, std::string::npos) << refused.message;
  return named == std::string::npos ? 0 : 1e6 * std::stod(refused.message.substr(named + 5));
}

// From the least that there is to all that is kept: each choice is within its budget, says what the next
// faster way would take, and changes no bit but by splitting.
TEST(Budget, LessMemoryIsMetByOtherWays) {
  NEED_MODEL();
  const host::Scratch scratch;
  constexpr int64_t kTokens = 2048;
  const auto rows = even_rows(4, kTokens);
  const host::Settings settings = host::with(run_of(scratch, kTokens), {{"max_steps", "1"}});
  const Ran free = run(settings, rows.get());
  ASSERT_EQ(free.status, TRL_OK) << free.message;
  for (const double share : {0.2, 0.6, 1.0}) {
    smallest_of(settings, rows.get());  // brings back the pages of code that a run gave back
    const double smallest = smallest_of(settings, rows.get());
    const double kept = peak_of(host::with(settings, {{"gradient_checkpointing", "false"}}));
    ASSERT_GT(kept, smallest + 5e6);
    const bool all = share == 1.0;
    const double budget = all ? kept + 16e6 : smallest + share * (kept - smallest);
    const Ran ran = run(host::with(settings, {{"memory_budget", number(budget)}}), rows.get());
    ASSERT_EQ(ran.status, TRL_OK) << share << ": " << ran.message;
    EXPECT_LE(ran.last.at("predicted_peak_bytes").get<double>(), budget) << ran.choice;
    EXPECT_GT(ran.last.at("peak_resident_bytes").get<double>(), 0);
    EXPECT_FALSE(ran.end.empty());
    ASSERT_EQ(ran.losses.size(), 1);
    if (has(ran.choice, " parts"))
      EXPECT_NEAR(ran.losses[0], free.losses[0], 1e-5) << ran.choice;
    else
      EXPECT_EQ(ran.losses[0], free.losses[0]) << ran.choice;
    EXPECT_FALSE(all && has(ran.choice, "the next faster way")) << ran.choice;
    EXPECT_EQ(has(ran.choice, "everything is kept for backward;"), all) << ran.choice;
  }
}

TEST(Budget, TheSmallestThatIsNamedIsEnough) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "under AddressSanitizer the process itself is larger than the run";
#endif
  NEED_MODEL();
  const host::Scratch scratch;
  const auto rows = even_rows(4, 512);
  const host::Settings settings = run_of(scratch, 512);
  run(settings, rows.get());          // opens a model: the start of the process counts no more
  smallest_of(settings, rows.get());  // what it leaves in the process is there for both of those below
  const Ran refused = run(host::with(settings, {{"memory_budget", "1MB"}}), rows.get());
  EXPECT_EQ(refused.status, TRL_E_INVALID_CONFIG);
  EXPECT_EQ(refused.key, "memory_budget");
  EXPECT_TRUE(refused.message.starts_with("memory_budget: 1 MB is too little: this run takes "))
      << refused.message;
  EXPECT_TRUE(has(refused.message, "max_length")) << refused.message;
  const size_t named = refused.message.find(", so ") + 5;
  const std::string enough = refused.message.substr(named, refused.message.find(" would do") - named);
  const Ran ran = run(host::with(settings, {{"memory_budget", enough}}), rows.get());
  EXPECT_EQ(ran.status, TRL_OK) << ran.message;
  // What the user has set leaves less room, and the message says so.
  const Ran less =
      run(host::with(settings, {{"memory_budget", "1MB"}, {"gradient_checkpointing", "false"}}), rows.get());
  EXPECT_TRUE(has(less.message, "What is set stays as it is, here gradient_checkpointing.")) << less.message;
}

TEST(Budget, TheReportHasWhatWasPredictedAndMeasured) {
  NEED_MODEL();
  const host::Scratch scratch;
  const auto rows = even_rows(8, 64);
  const host::Settings settings = host::with(run_of(scratch, 64), {{"report_to", "html"}});
  const auto report = [&](const host::Settings& more, bool predicted) {
    const Ran ran = run(host::with(settings, more), rows.get());
    EXPECT_EQ(ran.status, TRL_OK) << ran.message;
    EXPECT_EQ(ran.last.contains("predicted_peak_bytes"), has(ran.choice, "memory_budget"));
    EXPECT_EQ(has(ran.end, "measured peak"), predicted) << ran.end;
    return host::read_file(scratch / "out" / "report.html");
  };
  EXPECT_FALSE(has(report({{"fused_kernels", "off"}}, false), "predicted"));
  for (const host::Settings& more : {host::Settings{}, host::Settings{{"memory_budget", "1TB"}}}) {
    const std::string page = report(more, true);
    for (const char* kind : {"resident, at most", "weights", "gradients", "optimizer", "activations",
                             "workspace with free blocks", "data"})
      EXPECT_TRUE(has(page, std::string("<tr><th>") + kind + "</th><td>")) << kind;
    EXPECT_TRUE(has(page, " predicted, "));
  }
}

// Before step 1, of rows as long as they are where all of them are read first, else of the longest that
// max_length lets through.
TEST(Budget, EveryRunKnowsItsPeak) {
  NEED_MODEL();
  const host::Scratch scratch;
  const auto rows = even_rows(8, 300);
  const auto predicted = [&](const host::Settings& more) {
    const Ran ran = run(host::with(run_of(scratch, 4000), more), rows.get());
    EXPECT_EQ(ran.status, TRL_OK) << ran.message;
    // At the end it is that of the batches that there were, as the measured one is.
    EXPECT_TRUE(has(ran.end, "the predicted one of 4 rows of up to 300 tokens at a time: ")) << ran.end;
    return std::stod(ran.peak.substr(ran.peak.find("a peak of ") + 10)) * (has(ran.peak, " MB ") ? 1e6 : 1e9);
  };
  predicted({});  // what it leaves in the process is there for all of them
  const double limited = predicted({});
  EXPECT_NEAR(limited, peak_of(run_of(scratch, 4000)), 8e6);
  EXPECT_LT(predicted({{"max_steps", "-1"}, {"num_train_epochs", "1"}}), limited - 8e6);
}

TEST(Budget, IsRefusedWhereItMeansNothing) {
  NEED_MODEL();
  const host::Scratch scratch;
  const auto rows = even_rows(4, 64);
  const auto refused = [&](const host::Settings& more) {
    const Ran ran =
        run(host::with(host::with(run_of(scratch, 64), {{"memory_budget", "1TB"}}), more), rows.get());
    EXPECT_EQ(ran.status, TRL_E_INVALID_CONFIG) << ran.message;
    return ran;
  };
  EXPECT_TRUE(has(refused({{"memory_budget", "six"}}).message, "6GiB"));
  EXPECT_EQ(refused({{"fused_kernels", "off"}}).key, "fused_kernels");
}

// The rows say how long they are, unless they are streamed.
TEST(Budget, KnowsTheLongestRowWhereNoneIsGiven) {
  NEED_MODEL();
  const host::Scratch scratch;
  const auto rows = even_rows(8, 300);
  const host::Settings open = {{"memory_budget", "1TB"}, {"max_length", "null"}};
  run(host::with(run_of(scratch, 1), open), rows.get());  // what it leaves in the process is there for both
  const Ran by_rows = run(host::with(run_of(scratch, 1), open), rows.get());
  ASSERT_EQ(by_rows.status, TRL_OK) << by_rows.message;
  const Ran given = run(host::with(run_of(scratch, 300), {{"memory_budget", "1TB"}}), rows.get());
  ASSERT_EQ(given.status, TRL_OK) << given.message;
  EXPECT_NEAR(by_rows.last.at("predicted_peak_bytes").get<double>(),
              given.last.at("predicted_peak_bytes").get<double>(), 8e6);
  const Ran streamed =
      run(host::with(host::with(run_of(scratch, 1), open), {{"dataset_streaming", "true"}}), rows.get());
  EXPECT_EQ(streamed.status, TRL_E_INVALID_CONFIG);
  EXPECT_EQ(streamed.key, "max_length");
  EXPECT_TRUE(has(streamed.message, "dataset_streaming")) << streamed.message;
}

// Writes the recorded model with this key of its config.json and with changed tensors.
void write_changed(const std::filesystem::path& directory, const char* key, int64_t value,
                   const std::function<void(const std::string& name, host::Tensor& tensor)>& change) {
  std::filesystem::create_directories(directory);
  for (const auto& file : std::filesystem::directory_iterator(host::golden("models/qwen2"))) {
    if (file.path().filename() != "model.safetensors" && file.path().filename() != "config.json")
      std::filesystem::copy_file(file.path(), directory / file.path().filename());
  }
  Json config = host::golden_json("models/qwen2/config.json");
  config[key] = value;
  host::write_file(directory / "config.json", config.dump());
  std::string header, values;
  Json tensors = Json::object();
  for (auto& [name, tensor] : host::read_safetensors(host::golden("models/qwen2/model.safetensors"))) {
    host::Tensor changed = tensor;
    change(name, changed);
    const size_t begin = values.size();
    values.append(reinterpret_cast<const char*>(changed.values.data()), 4 * changed.values.size());
    tensors[name] = {{"dtype", "F32"}, {"shape", changed.shape}, {"data_offsets", {begin, values.size()}}};
  }
  header = tensors.dump();
  header.resize((header.size() + 7) / 8 * 8, ' ');
  const uint64_t size = header.size();
  host::write_file(directory / "model.safetensors",
                   std::string(reinterpret_cast<const char*>(&size), 8) + header + values);
}

// A model of the same shape whose embedding has so many rows.
void write_wide(const std::filesystem::path& directory, int64_t rows) {
  write_changed(directory, "vocab_size", rows, [&](const std::string& name, host::Tensor& tensor) {
    if (name != "model.embed_tokens.weight") return;
    tensor.shape[0] = rows;
    tensor.values.resize(static_cast<size_t>(rows * tensor.shape[1]));
  });
}

// Its multilayer perceptrons are so wide: the values of their weights repeat those recorded.
void write_wider(const std::filesystem::path& directory, int64_t width) {
  write_changed(directory, "intermediate_size", width, [&](const std::string& name, host::Tensor& tensor) {
    if (name.find(".mlp.") == std::string::npos) return;
    const host::Tensor recorded = tensor;
    tensor.shape[name.find("down_proj") == std::string::npos ? 0 : 1] = width;
    tensor.values.clear();
    for (int64_t row = 0; row < tensor.shape[0]; ++row)
      for (int64_t column = 0; column < tensor.shape[1]; ++column)
        tensor.values.push_back(recorded.values[static_cast<size_t>(
            row % recorded.shape[0] * recorded.shape[1] + column % recorded.shape[1])]);
  });
}

// The plan has what an SVD takes, and a run that may not take it gets one error.
TEST(Budget, CountsWhatADecompositionTakes) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "under AddressSanitizer the process itself is larger than the run";
#endif
  NEED_MODEL();
  const host::Scratch scratch;
  constexpr int64_t kWidth = int64_t{1} << 16;
  constexpr double kMatrix = 4.0 * 64 * kWidth;  // bytes: 17 MB
  write_wider(scratch / "model", kWidth);
  const auto rows = even_rows(2, 4);
  const host::Settings settings = host::with(
      run_of(scratch, 4),
      {{"model_name_or_path", scratch / "model"},
       {"per_device_train_batch_size", "1"},
       {"use_peft", "true"},
       {"peft_config", R"({"r": 4, "target_modules": ["gate_proj"], "init_lora_weights": "pissa"})"}});
  const Json plan = plan_of(settings);
  double decomposed = 0;
  for (const Json& term : plan.at("terms"))
    if (term.at("name") == "decomposition of weights") decomposed = term.at("most_bytes");
  EXPECT_GT(decomposed, 2 * kMatrix);  // a copy of the weight, and its vectors
  const auto runtime = host::runtime();
  int64_t now = 0;
  EXPECT_EQ(trl_runtime_memory(runtime.get(), nullptr, &now, nullptr, nullptr), TRL_OK);
  const double counted = plan.at("counted_bytes");
  EXPECT_EQ(trl_runtime_set_memory_limit(runtime.get(), now + static_cast<int64_t>(counted - 0.5 * kMatrix),
                                         nullptr),
            TRL_OK);
  const Ran limited = run(settings, rows.get());
  EXPECT_EQ(trl_runtime_set_memory_limit(runtime.get(), 0, nullptr), TRL_OK);
  EXPECT_EQ(limited.status, TRL_E_OUT_OF_MEMORY) << limited.message;
  EXPECT_TRUE(has(limited.message, "workspace do not fit")) << limited.message;
}

// OpenBLAS copies the rows of a wide matrix for a product into buffers that it keeps.
TEST(Budget, CountsTheBuffersOfOpenBlas) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "under a sanitizer the process itself is larger than the run";
#endif
  NEED_MODEL();
  const host::Scratch scratch;
  constexpr int64_t kWidth = int64_t{1} << 16;
  constexpr double kMatrix = 4.0 * 64 * kWidth;  // bytes: 17 MB
  write_wider(scratch / "model", kWidth);
  const auto rows = even_rows(2, 4);
  for (const char* start : {"pissa", "pissa_niter_4"}) {
    const host::Settings settings =
        host::with(run_of(scratch, 4),
                   {{"model_name_or_path", scratch / "model"},
                    {"per_device_train_batch_size", "1"},
                    {"max_steps", "1"},
                    {"use_peft", "true"},
                    {"peft_config", R"({"r": 4, "target_modules": ["down_proj"], "init_lora_weights": ")" +
                                        std::string(start) + "\"}"}});
    const Json plan = plan_of(settings);
    double buffers = 0;
    for (const Json& term : plan.at("terms"))
      if (term.at("name") == "buffers of OpenBLAS") buffers = term.at("most_bytes");
    if (start == std::string_view("pissa")) {
      EXPECT_GT(buffers, 0.9 * kMatrix);  // but for what another run has left
      const Ran refused = run(host::with(settings, {{"memory_budget", "1MB"}}), rows.get());
      EXPECT_TRUE(has(refused.message, "by init_lora_weights: true in peft_config")) << refused.message;
    } else {
      EXPECT_EQ(buffers, 0) << start;  // they are a part of the process
    }
    ASSERT_TRUE(trl::test::reset_most_resident());
    const auto trainer = host::trainer(settings, rows.get());
    ASSERT_NE(trainer, nullptr);
    EXPECT_EQ(trl_trainer_step(trainer.get(), nullptr, nullptr), TRL_OK);
    EXPECT_LT(static_cast<double>(trl::test::resident("VmHWM")),
              plan.at("peak_bytes").get<double>() + 0.6 * kMatrix)
        << start;
  }
}

// Memory that nobody planned for: a step fails, naming what was wrong; when it is there again, the run goes
// on as if nothing had happened.
TEST(Budget, PassingItIsAnErrorAfterWhichTheRunGoesOn) {
  NEED_MODEL();
  const host::Scratch scratch;
  constexpr int64_t kTokens = 256;
  const auto rows = even_rows(8, kTokens);
  const host::Settings settings = host::with(run_of(scratch, kTokens), {{"save_strategy", "steps"},
                                                                        {"save_steps", "1"},
                                                                        {"gradient_checkpointing", "false"},
                                                                        {"max_steps", "2"}});
  const Ran free = run(host::with(settings, {{"output_dir", scratch / "free"}}), rows.get());
  ASSERT_EQ(free.status, TRL_OK) << free.message;
  write_wide(scratch / "wide", 1 << 18);  // 67 MB

  const double budget = peak_of(settings) + 24e6;
  const auto runtime = host::runtime();
  const auto trainer = host::trainer(host::with(settings, {{"memory_budget", number(budget)}}), rows.get(),
                                     nullptr, runtime.get());
  ASSERT_NE(trainer, nullptr);
  Error error;
  ASSERT_EQ(trl_trainer_step(trainer.get(), nullptr, error), TRL_OK) << error.message();
  {
    trl_model* made = nullptr;  // not the run's, so its budget does not stop it
    ASSERT_EQ(trl_model_open(runtime.get(), (scratch / "wide").c_str(), nullptr, &made, error), TRL_OK)
        << error.message();
    const host::Model other(made);
    EXPECT_EQ(trl_trainer_step(trainer.get(), nullptr, error), TRL_E_OUT_OF_MEMORY);
    EXPECT_EQ(error.key(), "memory_budget");
    EXPECT_TRUE(error.names("weights 6")) << error.message();
    EXPECT_TRUE(error.names("(predicted ")) << error.message();
    EXPECT_TRUE(error.names("Above the prediction: weights")) << error.message();
  }
  EXPECT_TRUE(std::filesystem::exists(scratch / "out" / "checkpoint-1" / "trainer_state.json"));
  EXPECT_EQ(trl_trainer_train(trainer.get(), nullptr, nullptr, error), TRL_OK) << error.message();
  std::vector<double> losses;
  const Json state = host::state(trainer.get());
  for (const Json& record : state.at("log_history")) {
    if (record.contains("loss")) losses.push_back(record.at("loss"));
  }
  EXPECT_EQ(losses, free.losses);
  const auto resumed = host::trainer(
      host::with(settings, {{"resume_from_checkpoint", scratch / "out" / "checkpoint-1"}}), rows.get());
  EXPECT_NE(resumed, nullptr);
}

}  // namespace
