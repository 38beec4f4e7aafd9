// What a progress callback hears while things open, and how its answer stops them.
#include <filesystem>
#include <set>

#include "engine/run.h"

namespace {

using host::Error;

#define NEED_MODEL() NEED_GOLDEN("models/qwen2/model.safetensors")

struct Heard {
  std::vector<std::string> phases;  // each once, in the order of their first call
  std::map<std::string, std::pair<int64_t, int64_t>> last;
  std::string stop_in;
  int32_t answer = 0;
  int destroyed = 0;
  trl_status inside = TRL_OK;

  static int32_t progress(void* data, const char* phase, int64_t done, int64_t total) {
    auto* self = static_cast<Heard*>(data);
    if (self->last.count(phase) == 0) self->phases.emplace_back(phase);
    if (self->last.count(phase) > 0 && self->last[phase].second == total) {
      EXPECT_GE(done, self->last[phase].first) << phase;
    }
    EXPECT_TRUE(total == -1 || done <= total) << phase << done << total;
    self->last[phase] = {done, total};
    trl_runtime* none = nullptr;
    self->inside = trl_runtime_create(nullptr, &none, nullptr);
    return self->stop_in == phase ? self->answer : 0;
  }
  static void destroy(void* data) { ++static_cast<Heard*>(data)->destroyed; }
};

host::Runtime runtime_with(Heard& heard) {
  host::Runtime runtime = host::runtime();
  EXPECT_EQ(trl_runtime_set_progress(runtime.get(), Heard::progress, &heard, Heard::destroy, nullptr),
            TRL_OK);
  return runtime;
}

TEST(Progress, HearsThePhasesOfATrainersCreation) {
  NEED_MODEL();
  const host::Scratch scratch;
  Heard heard;
  {
    const host::Runtime runtime = runtime_with(heard);
    Error error;
    ASSERT_EQ(host::create_trainer(runtime.get(), scratch, error), TRL_OK) << error.message();
  }
  std::erase(heard.phases, "engine");  // where this test comes first in its process
  EXPECT_EQ(heard.phases, (std::vector<std::string>{"rows", "tokenize", "plan", "weights"}));
  EXPECT_GT(heard.last["rows"].first, 0);
  EXPECT_EQ(heard.last["tokenize"].first, heard.last["tokenize"].second);
  EXPECT_EQ(heard.last["weights"].first, heard.last["weights"].second);
  EXPECT_GT(heard.last["weights"].first, 10);
  EXPECT_EQ(heard.inside, TRL_E_BUSY);
  EXPECT_EQ(heard.destroyed, 1);
}

TEST(Progress, ItsAnswerStopsEveryPhase) {
  NEED_MODEL();
  const host::Scratch scratch;
  for (const char* phase : {"rows", "tokenize", "plan", "weights"}) {
    for (const int32_t answer : {int32_t{TRL_PROGRESS_STOP}, int32_t{-7}}) {
      Heard heard;
      heard.stop_in = phase;
      heard.answer = answer;
      const host::Runtime runtime = runtime_with(heard);
      int64_t before = 0, after = 0;
      Error error;
      ASSERT_EQ(trl_runtime_memory(runtime.get(), nullptr, &before, nullptr, nullptr), TRL_OK);
      EXPECT_EQ(host::create_trainer(runtime.get(), scratch, error),
                answer < 0 ? TRL_E_CALLBACK : TRL_E_CANCELLED)
          << phase << ": " << error.message();
      EXPECT_EQ(trl_error_callback_code(error.get()), answer < 0 ? answer : 0);
      EXPECT_EQ(heard.phases.back(), phase);
      ASSERT_EQ(trl_runtime_memory(runtime.get(), nullptr, &after, nullptr, nullptr), TRL_OK);
      EXPECT_EQ(after, before) << phase;
      heard.stop_in.clear();
      heard.last.clear();
      EXPECT_EQ(host::create_trainer(runtime.get(), scratch, error), TRL_OK) << error.message();
    }
  }
}

TEST(Progress, HearsAModelAndRowsThatAreCounted) {
  NEED_MODEL();
  Heard heard;
  const host::Runtime runtime = runtime_with(heard);
  trl_model* model = nullptr;
  ASSERT_EQ(trl_model_open(runtime.get(), host::golden("models/qwen2").c_str(), nullptr, &model, nullptr),
            TRL_OK);
  trl_model_destroy(model);
  EXPECT_EQ(heard.last.count("weights"), 1u);
  trl_dataset* rows = nullptr;
  ASSERT_EQ(trl_dataset_open(runtime.get(), host::golden("data/datasets/train_lm.jsonl").c_str(), nullptr,
                             &rows, nullptr),
            TRL_OK);
  int64_t count = 0;
  ASSERT_EQ(trl_dataset_get_row_count(rows, &count, nullptr), TRL_OK);
  EXPECT_EQ(heard.last.count("rows"), 1u);
  heard.stop_in = "rows";
  heard.answer = TRL_PROGRESS_STOP;
  heard.last.clear();
  EXPECT_EQ(trl_dataset_get_row_count(rows, &count, nullptr), TRL_E_CANCELLED);
  EXPECT_EQ(count, 0);
  trl_dataset_destroy(rows);
  ASSERT_EQ(trl_runtime_set_progress(runtime.get(), nullptr, nullptr, nullptr, nullptr), TRL_OK);
  EXPECT_EQ(heard.destroyed, 1);
}

}  // namespace
