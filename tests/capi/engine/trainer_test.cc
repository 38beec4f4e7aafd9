// A trainer's life: events, stopping, cancelling, evaluating, saving, running out of memory, and any order of
// the end.
#include <atomic>
#include <chrono>
#include <csignal>
#include <thread>

#include "engine/run.h"
#include "support/arrow_stream.h"

namespace {

using host::Error;
using host::Json;

#define NEED_MODEL() NEED_GOLDEN("models/qwen2/model.safetensors")

const std::string& lines() {
  static const auto* const text =
      new std::string(host::read_file(host::golden("data/datasets/train_lm.jsonl")));
  return *text;
}

struct Events {
  std::vector<int32_t> kinds;
  std::vector<double> losses;
  int32_t answer_at_step_two = 0;
  trl_trainer* trainer = nullptr;
  trl_status inside = TRL_OK;
  static int32_t on_event(void* data, int32_t kind, const trl_metrics* metrics) {
    auto* self = static_cast<Events*>(data);
    self->kinds.push_back(kind);
    EXPECT_EQ(host::metric(metrics, "max_steps"), 8);
    EXPECT_GE(host::metric(metrics, "epoch"), 0);
    const double step = host::metric(metrics, "step");
    if (kind == TRL_ON_LOG) {
      double loss = 0;
      if (trl_metrics_get(metrics, "loss", &loss) == TRL_OK) self->losses.push_back(loss);
    }
    self->inside = trl_trainer_step(self->trainer, nullptr, nullptr);
    return kind == TRL_ON_STEP && step == 2 ? self->answer_at_step_two : 0;
  }
  int64_t count(int32_t kind) const { return std::count(kinds.begin(), kinds.end(), kind); }
};

struct Session {
  host::Scratch scratch;
  host::Dataset rows = host::rows(lines());
  host::Trainer trainer;
  explicit Session(const host::Settings& more = {}, trl_runtime* runtime = nullptr, bool evaluates = false)
      : trainer(host::trainer(host::with(host::tiny(scratch / "out"), more), rows.get(),
                              evaluates ? rows.get() : nullptr, runtime)) {}
};

TEST(Train, EventsArriveInOrder) {
  NEED_MODEL();
  Session run;
  Events events;
  events.trainer = run.trainer.get();
  Error error;
  ASSERT_EQ(trl_trainer_train(run.trainer.get(), Events::on_event, &events, error), TRL_OK)
      << error.message();
  ASSERT_FALSE(events.kinds.empty());
  EXPECT_EQ(events.kinds.front(), TRL_ON_TRAIN_BEGIN);
  EXPECT_EQ(events.kinds.back(), TRL_ON_TRAIN_END);
  EXPECT_EQ(events.count(TRL_ON_STEP), 8);
  EXPECT_EQ(events.losses.size(), 8u);
  EXPECT_EQ(events.inside, TRL_E_BUSY);
  EXPECT_EQ(trl_trainer_step(run.trainer.get(), nullptr, error), TRL_END);
}

TEST(Train, AFunctionIsToldOfTheBeginningAfterSteps) {
  NEED_MODEL();
  Session run;
  for (int i = 0; i < 2; ++i) EXPECT_EQ(trl_trainer_step(run.trainer.get(), nullptr, nullptr), TRL_OK);
  struct Seen {
    std::vector<int32_t> kinds;
    double step = -1, batch = -1;
  } seen;
  const auto on_event = [](void* data, int32_t kind, const trl_metrics* metrics) -> int32_t {
    auto* self = static_cast<Seen*>(data);
    self->kinds.push_back(kind);
    if (kind == TRL_ON_TRAIN_BEGIN) {
      self->step = host::metric(metrics, "step");
      self->batch = host::metric(metrics, "train_batch_size");
      return TRL_EVENT_STOP;
    }
    return 0;
  };
  Error error;
  ASSERT_EQ(trl_trainer_train(run.trainer.get(), on_event, &seen, error), TRL_OK) << error.message();
  ASSERT_GE(seen.kinds.size(), 2u);
  EXPECT_EQ(seen.kinds[0], TRL_ON_TRAIN_BEGIN);
  EXPECT_EQ(seen.kinds[1], TRL_ON_STEP);
  EXPECT_EQ(seen.step, 3);
  EXPECT_GT(seen.batch, 0);
  EXPECT_EQ(host::state(run.trainer.get())["global_step"], 3);
  EXPECT_EQ(trl_trainer_step(run.trainer.get(), nullptr, error), TRL_OK) << error.message();
  seen.kinds.clear();
  ASSERT_EQ(trl_trainer_train(run.trainer.get(), on_event, &seen, error), TRL_OK) << error.message();
  EXPECT_EQ(seen.kinds.front(), TRL_ON_STEP);
  EXPECT_EQ(seen.kinds.back(), TRL_ON_TRAIN_END);
}

// There is no memory for the weights, so an error that is not of memory came before they were read.
TEST(Train, DisksAreLookedAtBeforeTheModelIsRead) {
  NEED_MODEL();
  const host::Scratch scratch;
  const auto rows = host::rows(lines());
  const auto runtime = host::runtime();
  const auto refusal = [&](const host::Settings& more, Error& error) {
    trl_trainer* made = nullptr;
    const trl_status status =
        trl_trainer_create(runtime.get(), host::config(host::with(host::tiny(scratch / "out"), more)).get(),
                           rows.get(), nullptr, &made, error);
    trl_trainer_destroy(made);
    return status;
  };
  Error error;
  ASSERT_EQ(trl_runtime_set_memory_limit(runtime.get(), 300000, error), TRL_OK) << error.message();
  EXPECT_EQ(refusal({}, error), TRL_E_OUT_OF_MEMORY);
  EXPECT_EQ(refusal({{"max_steps", "900000000"}, {"save_steps", "1"}}, error), TRL_E_IO);
  EXPECT_EQ(error.key(), "output_dir");
  EXPECT_TRUE(error.names("900000000 checkpoints of ")) << error.message();
  EXPECT_EQ(refusal({{"max_steps", "-1"}, {"num_train_epochs", "90000000"}, {"save_steps", "1"}}, error),
            TRL_E_IO);
  EXPECT_EQ(error.key(), "output_dir");
  if (std::filesystem::exists("/dev/shm")) {
    EXPECT_EQ(refusal({{"optim", "paged_adamw_8bit"}, {"offload_dir", "/dev/shm/there"}}, error),
              TRL_E_INVALID_CONFIG);
    EXPECT_EQ(error.key(), "offload_dir");
    EXPECT_FALSE(std::filesystem::exists("/dev/shm/there"));
  }
  trl_runtime_set_memory_limit(runtime.get(), 0, nullptr);
}

TEST(Train, StopEndsAfterTheStep) {
  NEED_MODEL();
  Session run;
  Events events;
  events.answer_at_step_two = TRL_EVENT_STOP;
  ASSERT_EQ(trl_trainer_train(run.trainer.get(), Events::on_event, &events, nullptr), TRL_OK);
  EXPECT_EQ(events.count(TRL_ON_STEP), 2);
  EXPECT_EQ(host::state(run.trainer.get())["global_step"], 2);
  EXPECT_TRUE(std::filesystem::exists(run.scratch / "out" / "trainer_state.json"));
}

TEST(Train, ANegativeAnswerStopsAndIsTheCallbacksError) {
  NEED_MODEL();
  Session run;
  Events events;
  events.answer_at_step_two = -5;
  Error error;
  EXPECT_EQ(trl_trainer_train(run.trainer.get(), Events::on_event, &events, error), TRL_E_CALLBACK);
  EXPECT_EQ(trl_error_callback_code(error.get()), -5);
  EXPECT_EQ(events.count(TRL_ON_STEP), 2);
  EXPECT_EQ(events.count(TRL_ON_SAVE), 0);
  EXPECT_EQ(events.count(TRL_ON_TRAIN_END), 1);
  EXPECT_TRUE(host::state(run.trainer.get())["log_history"].back().contains("train_loss"));
  EXPECT_TRUE(std::filesystem::exists(run.scratch / "out" / "trainer_state.json"));
}

TEST(Train, SaveAndEvaluateOnRequest) {
  NEED_MODEL();
  Session run({}, nullptr, true);
  Events events;
  events.answer_at_step_two = TRL_EVENT_SAVE | TRL_EVENT_EVALUATE;
  ASSERT_EQ(trl_trainer_train(run.trainer.get(), Events::on_event, &events, nullptr), TRL_OK);
  EXPECT_EQ(events.count(TRL_ON_SAVE), 2);  // asked for, and that of the last step
  EXPECT_EQ(events.count(TRL_ON_EVALUATE), 1);
  EXPECT_TRUE(std::filesystem::exists(run.scratch / "out" / "checkpoint-2" / "model.safetensors"));
  EXPECT_TRUE(std::filesystem::exists(run.scratch / "out" / "checkpoint-8" / "model.safetensors"));
  int evaluations = 0;
  const Json log = host::state(run.trainer.get())["log_history"];
  for (const auto& record : log) evaluations += record.contains("eval_loss");
  EXPECT_EQ(evaluations, 1);
}

TEST(Train, ACancelWithinTheLastEventIsAnsweredOnce) {
  NEED_MODEL();
  Session run({}, nullptr, true);
  const auto at_the_end = [](void* trainer, int32_t kind, const trl_metrics*) -> int32_t {
    if (kind != TRL_ON_TRAIN_END) return 0;
    trl_trainer_cancel(static_cast<trl_trainer*>(trainer));
    return TRL_EVENT_EVALUATE;
  };
  EXPECT_EQ(trl_trainer_train(run.trainer.get(), at_the_end, run.trainer.get(), nullptr), TRL_E_CANCELLED);
  EXPECT_EQ(trl_trainer_train(run.trainer.get(), nullptr, nullptr, nullptr), TRL_OK);
}

TEST(Train, WhatIsNotFiniteIsNullInTheDescription) {
  NEED_MODEL();
  Session run({{"learning_rate", "1e30"}, {"on_nonfinite", "continue"}, {"logging_nan_inf_filter", "false"}});
  ASSERT_EQ(trl_trainer_train(run.trainer.get(), nullptr, nullptr, nullptr), TRL_OK);
  const Json log = host::state(run.trainer.get())["log_history"];
  EXPECT_TRUE(log[6].at("loss").is_null());
}

TEST(Step, EqualsTrainAndLendsItsNumbers) {
  NEED_MODEL();
  Session stepped, trained;
  ASSERT_EQ(trl_trainer_train(trained.trainer.get(), nullptr, nullptr, nullptr), TRL_OK);
  const trl_metrics* metrics = nullptr;
  Error error;
  int steps = 0;
  trl_status status = TRL_OK;
  while ((status = trl_trainer_step(stepped.trainer.get(), &metrics, error)) == TRL_OK) {
    ++steps;
    EXPECT_EQ(host::metric(metrics, "step"), steps);
    EXPECT_GT(host::metric(metrics, "loss"), 0);
    EXPECT_GT(host::metric(metrics, "grad_norm"), 0);
    double value = 7;
    EXPECT_EQ(trl_metrics_get(metrics, "no_such", &value), TRL_E_NOT_FOUND);
    EXPECT_EQ(value, 0);
    EXPECT_EQ(trl_metrics_get(metrics, "loss", nullptr), TRL_E_INVALID_ARGUMENT);
    int names = 0;
    for (const char* n = trl_metrics_next(metrics, nullptr); n != nullptr; n = trl_metrics_next(metrics, n))
      ++names;
    EXPECT_GE(names, 5);
  }
  EXPECT_EQ(status, TRL_END) << error.message();
  EXPECT_EQ(steps, 8);
  Json left = host::state(stepped.trainer.get())["log_history"],
       right = host::state(trained.trainer.get())["log_history"];
  ASSERT_EQ(left.size(), 9u);
  ASSERT_EQ(right.size(), 9u);
  for (size_t i = 0; i < 8; ++i) EXPECT_EQ(left[i], right[i]);  // the last record also has times
}

TEST(Cancel, IsAnsweredOnceAndTheRunGoesOn) {
  NEED_MODEL();
  Session run, whole;
  Error error;
  ASSERT_EQ(trl_trainer_step(run.trainer.get(), nullptr, error), TRL_OK);
  trl_trainer_cancel(run.trainer.get());
  const trl_metrics* metrics = nullptr;
  EXPECT_EQ(trl_trainer_step(run.trainer.get(), &metrics, error), TRL_E_CANCELLED);
  EXPECT_EQ(metrics, nullptr);
  EXPECT_EQ(host::state(run.trainer.get())["global_step"], 1);
  EXPECT_EQ(trl_trainer_save(run.trainer.get(), (run.scratch / "saved").c_str(), nullptr, error), TRL_OK);
  EXPECT_EQ(trl_trainer_train(run.trainer.get(), nullptr, nullptr, error), TRL_OK) << error.message();
  ASSERT_EQ(trl_trainer_train(whole.trainer.get(), nullptr, nullptr, error), TRL_OK);
  const Json got = host::state(run.trainer.get())["log_history"],
             want = host::state(whole.trainer.get())["log_history"];
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < 8; ++i) EXPECT_EQ(got[i], want[i]);
}

trl_trainer* signalled = nullptr;

TEST(Cancel, WorksFromASignalHandlerOnAnotherThread) {
  NEED_MODEL();
  Session run({{"max_steps", "100000"}, {"logging_steps", "1000"}});
  signalled = run.trainer.get();
  struct sigaction before {};
  struct sigaction action {};
  action.sa_handler = [](int) { trl_trainer_cancel(signalled); };
  sigaction(SIGUSR1, &action, &before);
  std::atomic<int> steps{0};
  std::thread other([&] {
    while (steps.load() < 2) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    raise(SIGUSR1);
  });
  const auto count = [](void* data, int32_t event, const trl_metrics*) -> int32_t {
    if (event == TRL_ON_STEP) ++*static_cast<std::atomic<int>*>(data);
    return 0;
  };
  Error error;
  EXPECT_EQ(trl_trainer_train(run.trainer.get(), count, &steps, error), TRL_E_CANCELLED) << error.message();
  other.join();
  sigaction(SIGUSR1, &before, nullptr);
  EXPECT_EQ(host::state(run.trainer.get())["global_step"], steps.load());
}

TEST(Busy, ASecondCallIsRefused) {
  NEED_MODEL();
  Session run({{"max_steps", "100000"}, {"logging_steps", "1000"}});
  std::atomic<bool> begun{false};
  const auto begins = [](void* data, int32_t, const trl_metrics*) -> int32_t {
    *static_cast<std::atomic<bool>*>(data) = true;
    return 0;
  };
  std::thread training(
      [&] { EXPECT_EQ(trl_trainer_train(run.trainer.get(), begins, &begun, nullptr), TRL_E_CANCELLED); });
  for (int i = 0; i < 5000 && !begun; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(2));
  const std::string folder = run.scratch / "saved";
  EXPECT_EQ(trl_trainer_save(run.trainer.get(), folder.c_str(), nullptr, nullptr), TRL_E_BUSY);
  EXPECT_FALSE(std::filesystem::exists(folder));
  trl_trainer_cancel(run.trainer.get());
  training.join();
}

TEST(Evaluate, GivesTheLossThatTrainingOnTheSameBatchBeginsWith) {
  NEED_MODEL();
  const host::Settings one_batch = {{"per_device_train_batch_size", "64"},
                                    {"per_device_eval_batch_size", "64"}};
  Session run(one_batch, nullptr, true), without;
  const trl_metrics* metrics = nullptr;
  Error error;
  ASSERT_EQ(trl_trainer_evaluate(run.trainer.get(), nullptr, &metrics, error), TRL_OK) << error.message();
  const double loss = host::metric(metrics, "eval_loss");
  ASSERT_EQ(trl_trainer_step(run.trainer.get(), &metrics, error), TRL_OK) << error.message();
  EXPECT_NEAR(host::metric(metrics, "loss"), loss, 1e-5);
  EXPECT_EQ(trl_trainer_evaluate(without.trainer.get(), nullptr, &metrics, error), TRL_E_INVALID_ARGUMENT);
  EXPECT_EQ(metrics, nullptr);
}

// One thread or two, again and again: the same numbers and the same weights.
TEST(Threads, RepeatARunToTheBit) {
  NEED_MODEL();
  for (const char* bf16 : {"false", "true"}) {
    std::string weights;
    Json log;
    for (const char* threads : {"1", "2", "2", "1"}) {
      const auto runtime = host::runtime({{"runtime.threads", threads}});
      Session run({{"bf16", bf16}, {"gradient_checkpointing", bf16}, {"max_steps", "4"}}, runtime.get());
      Error error;
      ASSERT_EQ(trl_trainer_train(run.trainer.get(), nullptr, nullptr, error), TRL_OK) << error.message();
      ASSERT_EQ(trl_trainer_save(run.trainer.get(), nullptr, nullptr, error), TRL_OK) << error.message();
      const std::string saved = host::read_file(run.scratch / "out" / "model.safetensors");
      Json records = host::state(run.trainer.get())["log_history"];
      records.erase(4);  // the summary has timings
      ASSERT_EQ(records.size(), 4u);
      if (weights.empty()) {
        weights = saved;
        log = records;
      }
      EXPECT_TRUE(saved == weights) << "threads " << threads << " bf16 " << bf16;
      EXPECT_EQ(records, log) << "threads " << threads << " bf16 " << bf16;
    }
  }
}

TEST(Memory, AReachedLimitLeavesTheTrainerUsable) {
  NEED_MODEL();
  const auto runtime = host::runtime();
  Session run({}, runtime.get()), whole;
  Error error;
  ASSERT_EQ(trl_trainer_step(run.trainer.get(), nullptr, error), TRL_OK) << error.message();
  int64_t now = 0, peak = 0;
  for (const char* kind : {"weights", "optimizer", "data"}) {
    ASSERT_EQ(trl_runtime_memory(runtime.get(), kind, &now, nullptr, nullptr), TRL_OK);
    EXPECT_GT(now, 0) << kind;
  }
  ASSERT_EQ(trl_runtime_memory(runtime.get(), "gradients", &now, &peak, nullptr), TRL_OK);
  EXPECT_EQ(now, 0) << "after the update";
  EXPECT_GT(peak, 0);
  ASSERT_EQ(trl_runtime_memory(runtime.get(), nullptr, &now, nullptr, nullptr), TRL_OK);
  ASSERT_EQ(trl_runtime_set_memory_limit(runtime.get(), now + 4096, error), TRL_OK) << error.message();
  EXPECT_EQ(trl_trainer_step(run.trainer.get(), nullptr, error), TRL_E_OUT_OF_MEMORY);
  EXPECT_TRUE(error.names(std::to_string(now + 4096))) << error.message();
  EXPECT_EQ(host::state(run.trainer.get())["global_step"], 1);
  ASSERT_EQ(trl_runtime_set_memory_limit(runtime.get(), 0, error), TRL_OK);
  EXPECT_EQ(trl_trainer_train(run.trainer.get(), nullptr, nullptr, error), TRL_OK) << error.message();
  ASSERT_EQ(trl_trainer_train(whole.trainer.get(), nullptr, nullptr, error), TRL_OK);
  EXPECT_EQ(host::state(run.trainer.get())["log_history"][7],
            host::state(whole.trainer.get())["log_history"][7]);
}

TEST(Memory, AModelThatDoesNotFitIsRefusedAndFreed) {
  NEED_MODEL();
  const auto runtime = host::runtime();
  int64_t before = 0, after = 0;
  ASSERT_EQ(trl_runtime_memory(runtime.get(), nullptr, &before, nullptr, nullptr), TRL_OK);
  ASSERT_EQ(trl_runtime_set_memory_limit(runtime.get(), before + 100000, nullptr), TRL_OK);
  trl_model* model = nullptr;
  Error error;
  EXPECT_EQ(trl_model_open(runtime.get(), host::golden("models/qwen2").c_str(), nullptr, &model, error),
            TRL_E_OUT_OF_MEMORY)
      << error.message();
  ASSERT_EQ(trl_runtime_memory(runtime.get(), nullptr, &after, nullptr, nullptr), TRL_OK);
  EXPECT_EQ(after, before);
}

TEST(Handles, AnyOrderOfDestruction) {
  NEED_MODEL();
  const host::Scratch scratch;
  auto rows = host::rows(lines());
  auto config = host::config(host::tiny(scratch / "out"));
  auto runtime = host::runtime();
  trl_trainer* trainer = nullptr;
  Error error;
  ASSERT_EQ(trl_trainer_create(runtime.get(), config.get(), rows.get(), nullptr, &trainer, error), TRL_OK)
      << error.message();
  runtime.reset();
  config.reset();
  rows.reset();
  ASSERT_EQ(trl_trainer_train(trainer, nullptr, nullptr, error), TRL_OK) << error.message();
  trl_generator* const generator = host::generator_of(trainer).release();
  trl_trainer_destroy(trainer);
  const char* prompt = "row 1";
  trl_completions* completions = nullptr;
  ASSERT_EQ(
      trl_generator_generate(generator, &prompt, nullptr, 1, nullptr, nullptr, nullptr, &completions, error),
      TRL_OK)
      << error.message();
  trl_generator_destroy(generator);
  EXPECT_NE(trl_completions_text(completions, 0, nullptr), nullptr);
  trl_completions_destroy(completions);
}

TEST(Handles, ATrainerDestroyedInItsOwnCallbackEndsItsCall) {
  NEED_MODEL();
  const host::Scratch scratch;
  const auto rows = host::rows(lines());
  trl_trainer* trainer = host::trainer(host::tiny(scratch / "out"), rows.get()).release();
  const auto destroy = [](void* data, int32_t event, const trl_metrics*) -> int32_t {
    auto** held = static_cast<trl_trainer**>(data);
    if (event != TRL_ON_STEP || *held == nullptr) return 0;
    trl_trainer_destroy(*held);
    *held = nullptr;
    return TRL_EVENT_STOP;
  };
  trl_trainer* held = trainer;
  Error error;
  EXPECT_EQ(trl_trainer_train(trainer, destroy, &held, error), TRL_OK) << error.message();
  EXPECT_EQ(held, nullptr);
}

TEST(Config, IsASnapshot) {
  NEED_MODEL();
  const host::Scratch scratch;
  const auto rows = host::rows(lines());
  const auto config = host::config(host::tiny(scratch / "out"));
  trl_trainer* made = nullptr;
  ASSERT_EQ(trl_trainer_create(nullptr, config.get(), rows.get(), nullptr, &made, nullptr), TRL_OK);
  const host::Trainer trainer(made);
  host::set(config.get(), {{"max_steps", "1"}, {"output_dir", "/nonexistent/else"}});
  EXPECT_EQ(host::state(trainer.get())["max_steps"], 8);
  EXPECT_EQ(trl_trainer_save(trainer.get(), nullptr, nullptr, nullptr), TRL_OK);
  EXPECT_TRUE(std::filesystem::exists(scratch / "out" / "config.json"));
}

struct TextRows {
  std::vector<std::string> texts;
  size_t at = 0;
  static int32_t next(void* data, trl_record* record) {
    auto* self = static_cast<TextRows*>(data);
    if (self->at == self->texts.size()) return TRL_END;
    const std::string& text = self->texts[self->at++];
    return trl_record_set_text(record, "text", text.data(), text.size(), nullptr);
  }
  static int32_t rewind(void* data) {
    static_cast<TextRows*>(data)->at = 0;
    return 0;
  }
};

TEST(Datasets, WhateverTheyComeFromTheyTrainAlike) {
  NEED_MODEL();
  const host::Scratch scratch;
  TextRows rows;
  std::istringstream stream(lines());
  for (std::string line; std::getline(stream, line);) rows.texts.push_back(host::parse(line)["text"]);
  trl_dataset* made = nullptr;
  ASSERT_EQ(trl_dataset_from_callback(nullptr, TextRows::next, TextRows::rewind, &rows, nullptr, nullptr,
                                      &made, nullptr),
            TRL_OK);
  std::vector<host::Dataset> datasets;
  datasets.emplace_back(made);
  datasets.push_back(host::open_rows(host::golden("data/datasets/train_lm.jsonl")));
  datasets.push_back(host::rows(lines()));
  std::string csv = "text\n", shard;
  for (size_t i = 0; i < rows.texts.size(); ++i) {
    std::string cell = rows.texts[i];
    for (size_t at = 0; (at = cell.find('"', at)) != std::string::npos; at += 2) cell.insert(at, 1, '"');
    csv += '"' + cell + "\"\n";
    shard += Json{{"text", rows.texts[i]}}.dump() + "\n";
    if (i % 10 != 9 && i + 1 < rows.texts.size()) continue;
    host::write_file(scratch / ("shards/" + std::to_string(100 + i) + ".jsonl"), shard);
    shard.clear();
  }
  host::write_file(scratch / "rows.csv", csv);
  datasets.push_back(host::open_rows(scratch / "rows.csv"));
  datasets.push_back(host::open_rows(scratch / "shards"));
  datasets.push_back(host::open_rows(scratch / "shards/*.jsonl"));
  trl::test::ArrowStream arrow({trl::test::arrow_batch({trl::test::arrow_text("text", rows.texts)})});
  ASSERT_EQ(trl_dataset_from_arrow(nullptr, arrow.stream(), nullptr, &made, nullptr), TRL_OK);
  datasets.emplace_back(made);
  std::vector<Json> logs;
  for (const auto& dataset : datasets) {
    const auto trainer = host::trainer(host::tiny(scratch / std::to_string(logs.size())), dataset.get());
    ASSERT_EQ(trl_trainer_train(trainer.get(), nullptr, nullptr, nullptr), TRL_OK);
    Json log = host::state(trainer.get())["log_history"];
    log.erase(log.end() - 1);
    logs.push_back(log);
  }
  for (const Json& log : logs) EXPECT_EQ(log, logs[0]);
}

TEST(Datasets, ColumnsAreRenamedByTheirOwnOptions) {
  NEED_MODEL();
  const host::Scratch scratch;
  std::string renamed = lines();
  for (size_t at = 0; (at = renamed.find("{\"text\":", at)) != std::string::npos; at += 8)
    renamed.replace(at, 8, "{\"body\":");
  const auto options = host::config({{"dataset_columns", "{body: text}"}});
  trl_dataset* made = nullptr;
  ASSERT_EQ(trl_dataset_from_buffer(nullptr, "jsonl", renamed.data(), renamed.size(), options.get(), &made,
                                    nullptr),
            TRL_OK);
  const host::Dataset rows(made);
  const auto trainer = host::trainer(host::tiny(scratch / "out"), rows.get());
  EXPECT_EQ(trl_trainer_step(trainer.get(), nullptr, nullptr), TRL_OK);
}

TEST(Log, WarningsReachTheRuntimesCallback) {
  NEED_MODEL();
  std::vector<std::string> said;
  const auto runtime = host::runtime();
  const auto line = [](void* data, int32_t level, const char*, const char* text, size_t) {
    trl_runtime* inside = nullptr;
    EXPECT_EQ(trl_runtime_create(nullptr, &inside, nullptr), TRL_E_BUSY);
    if (level >= TRL_LOG_WARNING) static_cast<std::vector<std::string>*>(data)->push_back(text);
  };
  ASSERT_EQ(trl_runtime_set_log(runtime.get(), line, &said, nullptr, nullptr), TRL_OK);
  const Session run({{"push_to_hub", "true"}}, runtime.get());
  bool found = false;
  for (const auto& text : said) found = found || text.find("push_to_hub") != std::string::npos;
  EXPECT_TRUE(found);
}

}  // namespace
