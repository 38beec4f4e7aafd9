// Beside a call that trains: its state is told to other threads and to callbacks, and generators of its model
// take turns with its steps.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <utility>

#include "engine/requests.h"
#include "engine/rewarded.h"

namespace {

using host::Error;
using host::Json;

#define NEED_MODEL() NEED_GOLDEN("models/qwen2/model.safetensors")

void wait_ms(int64_t milliseconds) { std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds)); }

// Waits until something holds; false: it did not within ten seconds.
bool comes_true(const std::function<bool()>& holds) {
  for (int i = 0; i < 10000; ++i) {
    if (holds()) return true;
    wait_ms(1);
  }
  return false;
}

int64_t integer_of(const trl_trainer* trainer, const char* name) {
  int64_t value = -1;
  size_t count = 0;
  Error error;
  EXPECT_EQ(trl_trainer_get_integers(trainer, name, &value, 1, &count, error), TRL_OK)
      << name << error.message();
  EXPECT_EQ(count, 1u) << name;
  return value;
}

// A run with a generator of its model.
struct Shared {
  host::Scratch scratch;
  host::Runtime runtime = host::runtime();
  host::Dataset rows = host::rows(host::read_file(host::golden("data/datasets/train_lm.jsonl")));
  host::Trainer trainer;
  host::Model model;
  host::Generator generator;
  explicit Shared(const char* max_steps, const host::Settings& more = {})
      : trainer(host::trainer(
            host::with(host::with(host::tiny(scratch / "out"),
                                  {{"save_strategy", "no"}, {"report_to", "none"}, {"max_steps", max_steps}}),
                       more),
            rows.get(), rows.get(), runtime.get())) {
    trl_model* made = nullptr;
    Error error;
    EXPECT_EQ(trl_model_from_trainer(trainer.get(), &made, error), TRL_OK) << error.message();
    model.reset(made);
    generator = host::generator_of(made);
  }
  trl_status train(trl_event_fn on_event = nullptr, void* data = nullptr) {
    return trl_trainer_train(trainer.get(), on_event, data, nullptr);
  }
  std::vector<int32_t> complete(trl_token_fn on_token = nullptr, void* data = nullptr,
                                trl_status want = TRL_OK) {
    const char* const prompts[] = {"The small kernel"};
    const host::Config options =
        host::config({{"generate.max_new_tokens", "6"}, {"generate.ignore_eos", "true"}});
    trl_completions* made = nullptr;
    Error error;
    EXPECT_EQ(trl_generator_generate(generator.get(), prompts, nullptr, 1, options.get(), on_token, data,
                                     &made, error),
              want)
        << error.message();
    const host::Completions owned(made);
    size_t count = 0;
    const int32_t* const ids = made != nullptr ? trl_completions_tokens(made, 0, &count) : nullptr;
    return std::vector<int32_t>(ids, ids + count);
  }
  std::string weights() const {
    Error error;
    EXPECT_EQ(trl_trainer_save(trainer.get(), (scratch / "saved").c_str(), nullptr, error), TRL_OK)
        << error.message();
    return host::read_file(scratch / "saved" / "model.safetensors");
  }
  std::vector<double> losses() const {
    std::vector<double> losses;
    const Json state = host::state(trainer.get());
    for (const Json& record : state["log_history"])
      if (record.contains("loss")) losses.push_back(record["loss"]);
    return losses;
  }
};

// An event callback that waits in the first step until it may go on.
struct HeldStep {
  std::atomic<bool> in_step{false}, goes_on{false};
  static int32_t on_event(void* data, int32_t event, const trl_metrics*) {
    auto* const self = static_cast<HeldStep*>(data);
    if (event != TRL_ON_STEP) return 0;
    self->in_step = true;
    EXPECT_TRUE(comes_true([self] { return self->goes_on.load(); }));
    return 0;
  }
};

TEST(BesideTraining, OtherThreadsReadTheState) {
  NEED_MODEL();
  Shared run("40");
  std::atomic<bool> done{false};
  std::vector<std::thread> readers;
  std::atomic<int> while_training{0};
  for (int reader = 0; reader < 2; ++reader) {
    readers.emplace_back([&] {
      int64_t last = 0;
      do {
        const char* text = nullptr;
        Error error;
        EXPECT_EQ(trl_trainer_describe(run.trainer.get(), &text, error), TRL_OK) << error.message();
        const std::string taken = text;
        std::this_thread::yield();
        EXPECT_EQ(text, taken);  // though the other thread describes, too
        const Json state = host::parse(text);
        const int64_t step = state["global_step"];
        EXPECT_GE(step, last);
        EXPECT_GE(integer_of(run.trainer.get(), "global_step"), step);
        if (step > 0) {
          EXPECT_EQ(state["metrics"]["step"], step);
          EXPECT_TRUE(state["metrics"]["loss"].is_number());
        }
        for (const Json& record : state["log_history"]) EXPECT_LE(record["step"], step);
        if (step > 0 && step < 40) ++while_training;
        last = step;
      } while (!done);
    });
  }
  EXPECT_EQ(run.train(), TRL_OK);
  done = true;
  for (std::thread& reader : readers) reader.join();
  EXPECT_GT(while_training, 0);
  EXPECT_EQ(host::state(run.trainer.get())["log_history"].size(), 41u);  // with the summary
}

// What callbacks read: the event's own step and record are in it.
struct ReadInside {
  trl_trainer* trainer = nullptr;
  trl_runtime* runtime = nullptr;
  int events = 0, lines = 0, saves = 0, tokens = 0;

  Json read() const {
    int64_t now = 0, peak = 0;
    Error error;
    EXPECT_EQ(trl_runtime_memory(runtime, "weights", &now, &peak, error), TRL_OK) << error.message();
    EXPECT_GT(now, 0);
    const Json state = host::state(trainer);
    EXPECT_EQ(state["global_step"], integer_of(trainer, "global_step"));
    EXPECT_EQ(state["max_steps"], integer_of(trainer, "max_steps"));
    return state;
  }
  static int32_t on_event(void* data, int32_t event, const trl_metrics* metrics) {
    auto* const self = static_cast<ReadInside*>(data);
    ++self->events;
    const Json state = self->read();
    EXPECT_EQ(state["global_step"].get<double>(), host::metric(metrics, "step"));
    if (event == TRL_ON_STEP) {
      EXPECT_EQ(state["metrics"]["loss"], host::metric(metrics, "loss"));
    }
    if (event == TRL_ON_LOG) {
      EXPECT_EQ(state["log_history"].back()["step"].get<double>(), host::metric(metrics, "step"));
    }
    EXPECT_EQ(trl_trainer_step(self->trainer, nullptr, nullptr), TRL_E_BUSY);
    return 0;
  }
  static void on_line(void* data, int32_t, const char*, const char*, size_t) {
    auto* const self = static_cast<ReadInside*>(data);
    if (self->trainer == nullptr) return;
    ++self->lines;
    self->read();
  }
  static int32_t on_progress(void* data, const char* phase, int64_t, int64_t) {
    auto* const self = static_cast<ReadInside*>(data);
    if (self->trainer == nullptr) return 0;
    self->saves += phase == std::string_view("save") ? 1 : 0;
    self->read();
    return 0;
  }
  static int32_t on_token(void* data, size_t, int32_t, const char*, size_t, double) {
    auto* const self = static_cast<ReadInside*>(data);
    ++self->tokens;
    self->read();
    return 0;
  }
};

TEST(BesideTraining, CallbacksReadTheState) {
  NEED_MODEL();
  ReadInside inside;
  Shared run("4", {{"save_strategy", "steps"}, {"save_steps", "2"}});
  inside.runtime = run.runtime.get();
  ASSERT_EQ(trl_runtime_set_log(inside.runtime, ReadInside::on_line, &inside, nullptr, nullptr), TRL_OK);
  ASSERT_EQ(trl_runtime_set_progress(inside.runtime, ReadInside::on_progress, &inside, nullptr, nullptr),
            TRL_OK);
  inside.trainer = run.trainer.get();
  EXPECT_EQ(run.train(ReadInside::on_event, &inside), TRL_OK);
  EXPECT_EQ(run.complete(ReadInside::on_token, &inside).size(), 6u);
  EXPECT_GT(inside.events, 8);
  EXPECT_GT(inside.lines, 0);
  EXPECT_GT(inside.saves, 0);
  EXPECT_EQ(inside.tokens, 6);
  inside.trainer = nullptr;
}

TEST(BesideTraining, IntegersAreThoseOfTheModel) {
  NEED_MODEL();
  const Shared whole("3"), part("3", {{"use_peft", "true"}, {"lora_r", "2"}});
  const host::Model model = host::open_model(host::golden("models/qwen2"));
  const char* json = nullptr;
  ASSERT_EQ(trl_model_describe(model.get(), &json, nullptr), TRL_OK);
  const Json described = host::parse(json);
  trl_trainer* const trainer = whole.trainer.get();
  EXPECT_EQ(integer_of(trainer, "vocab_size"), described["config"]["vocab_size"]);
  EXPECT_EQ(integer_of(trainer, "parameter_count"), described["parameters"]);
  EXPECT_EQ(integer_of(trainer, "trained_parameter_count"), described["parameters"]);
  EXPECT_EQ(integer_of(trainer, "max_steps"), 3);
  EXPECT_EQ(integer_of(trainer, "global_step"), 0);
  Error error;
  ASSERT_EQ(trl_trainer_step(trainer, nullptr, error), TRL_OK) << error.message();
  EXPECT_EQ(integer_of(trainer, "global_step"), 1);
  const int64_t adapter = integer_of(part.trainer.get(), "trained_parameter_count");
  EXPECT_GT(adapter, 0);
  EXPECT_EQ(integer_of(part.trainer.get(), "parameter_count"),
            described["parameters"].get<int64_t>() + adapter);

  size_t count = 99;
  ASSERT_EQ(trl_trainer_get_integers(trainer, "eos_token_ids", nullptr, 0, &count, error), TRL_OK)
      << error.message();
  ASSERT_GT(count, 0u);
  std::vector<int64_t> ids(count + 1, -7);
  ASSERT_EQ(trl_trainer_get_integers(trainer, "eos_token_ids", ids.data(), ids.size(), nullptr, error),
            TRL_OK)
      << error.message();
  EXPECT_TRUE(std::all_of(ids.begin(), ids.end() - 1, [](int64_t id) { return id >= 0 && id < 512; }));
  EXPECT_EQ(ids.back(), -7);
  EXPECT_EQ(trl_trainer_get_integers(trainer, "no_such", ids.data(), 1, &count, error), TRL_E_NOT_FOUND);
  EXPECT_EQ(count, 0u);
  EXPECT_TRUE(error.names("trained_parameter_count")) << error.message();
  EXPECT_EQ(trl_trainer_get_integers(trainer, nullptr, ids.data(), 1, &count, error), TRL_E_INVALID_ARGUMENT);
  EXPECT_EQ(trl_trainer_get_integers(trainer, "max_steps", nullptr, 1, &count, error),
            TRL_E_INVALID_ARGUMENT);
}

// The step after which a completion was made.
int32_t note_step(void* data, size_t, int32_t, const char*, size_t, double) {
  auto* const at = static_cast<std::pair<const trl_trainer*, int64_t>*>(data);
  const int64_t step = integer_of(at->first, "global_step");
  EXPECT_TRUE(at->second == -1 || at->second == step);  // no step is made meanwhile
  at->second = step;
  return 0;
}

// Its completions are those of the same step, and the run is as without it.
TEST(BesideTraining, AGeneratorTakesTurnsWithTheSteps) {
  NEED_MODEL();
  constexpr int kSteps = 30;
  const host::Settings logged = {{"logging_strategy", "steps"}, {"logging_steps", "1"}};
  Shared alone("30", logged), beside("30", logged), stepped("30", logged);
  ASSERT_EQ(alone.train(), TRL_OK);
  std::vector<std::vector<int32_t>> of_steps = {stepped.complete()};
  for (int step = 0; step < kSteps; ++step) {
    ASSERT_EQ(trl_trainer_step(stepped.trainer.get(), nullptr, nullptr), TRL_OK);
    of_steps.push_back(stepped.complete());
  }
  std::atomic<bool> done{false};
  int made = 0, between = 0;
  std::thread generating([&] {
    while (!done) {
      std::pair<const trl_trainer*, int64_t> at{beside.trainer.get(), -1};
      const std::vector<int32_t> ids = beside.complete(note_step, &at);
      ASSERT_GE(at.second, 0);
      EXPECT_EQ(ids, of_steps.at(static_cast<size_t>(at.second))) << at.second;
      ++made;
      if (at.second > 0 && at.second < kSteps) ++between;
    }
  });
  EXPECT_EQ(beside.train(), TRL_OK);
  done = true;
  generating.join();
  EXPECT_GT(made, 0);
  EXPECT_GT(between, 0);
  EXPECT_EQ(beside.losses(), alone.losses());
  EXPECT_EQ(alone.losses().size(), static_cast<size_t>(kSteps));
  EXPECT_TRUE(beside.weights() == alone.weights());
  EXPECT_TRUE(stepped.weights() == alone.weights());
}

// Neither a thread that makes single steps nor one that makes requests keeps the other one out.
TEST(BesideTraining, StepsAndRequestsBothGetOn) {
  NEED_MODEL();
  Shared run("100000");
  std::atomic<bool> done{false};
  std::atomic<int> steps{0};
  std::thread stepping([&] {
    Error error;
    while (!done) {
      ASSERT_EQ(trl_trainer_step(run.trainer.get(), nullptr, error), TRL_OK) << error.message();
      ++steps;
    }
  });
  ASSERT_TRUE(comes_true([&] { return steps > 0; }));
  const int before = steps;
  const size_t first = host::add(run.generator.get(), "The small kernel",
                                 {{"generate.max_new_tokens", "12"}, {"generate.ignore_eos", "true"}});
  host::finish(run.generator.get());
  EXPECT_EQ(host::taken(run.generator.get(), first)["token_ids"].size(), 12u);
  Error error;
  EXPECT_EQ(trl_generator_release_memory(run.generator.get(), error), TRL_OK) << error.message();
  EXPECT_GT(steps, before);
  done = true;
  stepping.join();
}

TEST(BesideTraining, WithinACallbackAGeneratorIsBusy) {
  NEED_MODEL();
  Shared run("2");
  const auto on_event = [](void* data, int32_t, const trl_metrics*) -> int32_t {
    Error error;
    EXPECT_EQ(trl_generator_step(static_cast<trl_generator*>(data), nullptr, nullptr, error), TRL_E_BUSY);
    EXPECT_TRUE(error.names("called inside a callback")) << error.message();
    return 0;
  };
  EXPECT_EQ(run.train(on_event, run.generator.get()), TRL_OK);
}

TEST(BesideTraining, TwoCallsOfTheTrainerAreRefusedAsBefore) {
  NEED_MODEL();
  Shared run("2");
  HeldStep held;
  std::thread training([&] { EXPECT_EQ(run.train(HeldStep::on_event, &held), TRL_OK); });
  ASSERT_TRUE(comes_true([&] { return held.in_step.load(); }));
  Error error;
  EXPECT_EQ(trl_trainer_step(run.trainer.get(), nullptr, error), TRL_E_BUSY);
  EXPECT_EQ(trl_trainer_save(run.trainer.get(), nullptr, nullptr, error), TRL_E_BUSY);
  EXPECT_TRUE(error.names("trainer is in use on another thread")) << error.message();
  held.goes_on = true;
  training.join();
}

// A token callback that waits until it may go on.
struct Slow {
  std::atomic<int> tokens{0};
  std::atomic<bool> goes_on{false};
  static int32_t on_token(void* data, size_t, int32_t, const char*, size_t, double) {
    auto* const self = static_cast<Slow*>(data);
    ++self->tokens;
    EXPECT_TRUE(comes_true([self] { return self->goes_on.load(); }));
    return 0;
  }
};

// A run that is cancelled while it lets a generator go first ends as one that is cancelled in a step.
TEST(BesideTraining, ACancelBetweenStepsSaysWhereTheRunIs) {
  NEED_MODEL();
  Shared run("100000", {{"report_to", "html"}});
  HeldStep held;
  Slow slow;
  Error error;
  std::thread training([&] {
    EXPECT_EQ(trl_trainer_train(run.trainer.get(), HeldStep::on_event, &held, error), TRL_E_CANCELLED);
  });
  ASSERT_TRUE(comes_true([&] { return held.in_step.load(); }));
  std::thread generating([&] { EXPECT_EQ(run.complete(Slow::on_token, &slow).size(), 6u); });
  wait_ms(100);  // it waits for its turn
  held.goes_on = true;
  ASSERT_TRUE(comes_true([&] { return slow.tokens > 0; }));
  trl_trainer_cancel(run.trainer.get());
  training.join();
  EXPECT_EQ(error.message(), "cancelled after step " +
                                 std::to_string(integer_of(run.trainer.get(), "global_step")) + " of 100000");
  EXPECT_NE(host::read_file(run.scratch / "out" / "report.html").find(error.message()), std::string::npos);
  slow.goes_on = true;
  generating.join();
  EXPECT_EQ(trl_trainer_step(run.trainer.get(), nullptr, error), TRL_OK) << error.message();
}

// A step that comes while a generator is at work waits for it.
TEST(BesideTraining, AStepWaitsForAGenerator) {
  NEED_MODEL();
  Shared run("2");
  Slow slow;
  std::atomic<bool> stepped{false};
  std::thread generating([&] { EXPECT_EQ(run.complete(Slow::on_token, &slow).size(), 6u); });
  ASSERT_TRUE(comes_true([&] { return slow.tokens > 0; }));
  std::thread cancelled(
      [&] { EXPECT_EQ(trl_trainer_step(run.trainer.get(), nullptr, nullptr), TRL_E_CANCELLED); });
  wait_ms(300);
  trl_trainer_cancel(run.trainer.get());  // ends the step that waits, and not the generator
  cancelled.join();
  std::thread stepping([&] {
    Error error;
    EXPECT_EQ(trl_trainer_step(run.trainer.get(), nullptr, error), TRL_OK) << error.message();
    stepped = true;
  });
  wait_ms(100);
  EXPECT_FALSE(stepped);
  slow.goes_on = true;
  stepping.join();
  generating.join();
  EXPECT_EQ(slow.tokens, 6);
}

// trl_runtime_cancel ends the call that waits at once.
TEST(BesideTraining, ACallThatWaitsIsCancelled) {
  NEED_MODEL();
  Shared run("100");
  HeldStep held;
  std::thread training([&] { EXPECT_EQ(run.train(HeldStep::on_event, &held), TRL_E_CANCELLED); });
  ASSERT_TRUE(comes_true([&] { return held.in_step.load(); }));
  std::thread generating([&] { run.complete(nullptr, nullptr, TRL_E_CANCELLED); });
  wait_ms(100);
  trl_runtime_cancel(run.runtime.get());
  generating.join();  // the step is still held
  held.goes_on = true;
  training.join();
  EXPECT_EQ(run.complete().size(), 6u);
}

// trl_trainer_cancel ends the call that trains; the one that waits has its turn.
TEST(BesideTraining, ACancelOfTheTrainerEndsWhatTrains) {
  NEED_MODEL();
  Shared run("100");
  for (int round = 0; round < 2; ++round) {
    HeldStep held;
    std::thread training([&] { EXPECT_EQ(run.train(HeldStep::on_event, &held), TRL_E_CANCELLED); });
    ASSERT_TRUE(comes_true([&] { return held.in_step.load(); }));
    std::thread generating([&] { EXPECT_EQ(run.complete().size(), 6u); });
    wait_ms(50);
    trl_trainer_cancel(run.trainer.get());
    held.goes_on = true;
    training.join();
    generating.join();
  }
  trl_trainer_cancel(run.trainer.get());  // no call runs: it ends the next one
  run.complete(nullptr, nullptr, TRL_E_CANCELLED);
  EXPECT_EQ(run.complete().size(), 6u);
}

TEST(BesideTraining, APauseHoldsBothAndRefusesTheRest) {
  NEED_MODEL();
  Shared run("100000");
  const size_t first = host::add(run.generator.get(), "The small", {{"generate.max_new_tokens", "4"}});
  const host::Generator other = host::generator_of(run.model.get());
  std::thread training([&] { EXPECT_EQ(run.train(), TRL_E_CANCELLED); });
  ASSERT_TRUE(comes_true([&] { return integer_of(run.trainer.get(), "global_step") > 2; }));
  trl_trainer_pause(run.trainer.get());
  wait_ms(200);
  const int64_t held = integer_of(run.trainer.get(), "global_step");
  std::atomic<bool> completed{false};
  std::thread generating([&] {
    const char* const prompts[] = {"The small kernel"};
    Error error;
    EXPECT_EQ(
        trl_generator_generate(other.get(), prompts, nullptr, 1, nullptr, nullptr, nullptr, nullptr, error),
        TRL_OK)
        << error.message();
    completed = true;
  });
  Error error;
  trl_completions* made = nullptr;
  EXPECT_EQ(trl_generator_take(run.generator.get(), first, 1, &made, error), TRL_E_BUSY);
  EXPECT_TRUE(error.names("paused")) << error.message();
  EXPECT_EQ(trl_generator_cancel(run.generator.get(), first, 1, error), TRL_E_BUSY);
  EXPECT_EQ(trl_trainer_save(run.trainer.get(), nullptr, nullptr, error), TRL_E_BUSY);
  wait_ms(200);
  EXPECT_EQ(host::state(run.trainer.get())["global_step"], held);
  EXPECT_FALSE(completed);
  trl_trainer_resume(run.trainer.get());
  generating.join();
  ASSERT_TRUE(comes_true([&] { return integer_of(run.trainer.get(), "global_step") > held; }));
  EXPECT_EQ(trl_generator_take(run.generator.get(), first, 1, &made, error), TRL_OK) << error.message();
  trl_completions_destroy(made);
  trl_trainer_cancel(run.trainer.get());
  training.join();
}

// Nothing is held that the end of the pause would end.
TEST(BesideTraining, AGeneratorOutlivesAPausedTrainer) {
  NEED_MODEL();
  Shared run("2");
  trl_trainer_pause(run.trainer.get());
  run.trainer.reset();
  EXPECT_EQ(run.complete().size(), 6u);
}

// What a callback of a generator throws ends that generator's call, and not the run beside it.
TEST(BesideTraining, AFailedTokenEndsItsOwnCall) {
  NEED_MODEL();
  Shared run("20");
  std::thread generating([&] {
    const auto throws = [](void*, size_t, int32_t, const char*, size_t, double) -> int32_t {
      throw std::runtime_error("the host's own words");
    };
    for (int call = 0; call < 3; ++call) run.complete(throws, nullptr, TRL_E_CALLBACK);
  });
  EXPECT_EQ(run.train(), TRL_OK);
  generating.join();
  EXPECT_EQ(integer_of(run.trainer.get(), "global_step"), 20);
}

// A thread that waits for its turn when the run asks for a rollout is let in, because the run may wait for
// what it is to write.
TEST(BesideTraining, AWaitingThreadMayWriteTheRollout) {
  NEED_MODEL();
  const host::Scratch scratch;
  std::thread writing;
  std::mutex mutex;
  trl_rollout* asked = nullptr;
  const auto take_rollout = [&] {
    const std::lock_guard lock(mutex);
    return std::exchange(asked, nullptr);
  };
  host::Function write = [&](trl_rollout* rollout) {
    const std::lock_guard lock(mutex);
    asked = rollout;
    return int32_t{TRL_LATER};
  };
  host::Rewarded run(host::grpo(scratch / "out", {{"max_steps", "1"}}), host::reward_all);
  trl_model* made = nullptr;
  ASSERT_EQ(trl_model_from_trainer(run.trainer.get(), &made, run.error), TRL_OK) << run.error.message();
  const host::Model model(made);
  const host::Generator generator = host::generator_of(made);
  ASSERT_EQ(trl_trainer_set_rollout(run.trainer.get(), host::call, &write, nullptr, run.error), TRL_OK);
  std::function<void()> begin = [&] {
    writing = std::thread([&] {
      const size_t first = host::add(generator.get(), "one", {{"generate.max_new_tokens", "3"}});
      trl_rollout* rollout = nullptr;
      ASSERT_TRUE(comes_true([&] { return (rollout = take_rollout()) != nullptr; }));
      host::finish(generator.get());
      EXPECT_FALSE(host::taken(generator.get(), first).is_null());
      const int32_t ids[] = {1, 2, 3};
      for (size_t i = 0; i < trl_rollout_count(rollout); ++i)
        EXPECT_EQ(trl_rollout_set_completion(rollout, i, ids, 3, nullptr, nullptr, nullptr, nullptr), TRL_OK);
      EXPECT_EQ(trl_rollout_finish(rollout, nullptr, nullptr), TRL_OK);
    });
    wait_ms(100);  // it waits before the rollout is open
  };
  const auto on_event = [](void* data, int32_t event, const trl_metrics*) -> int32_t {
    if (event == TRL_ON_TRAIN_BEGIN) (*static_cast<std::function<void()>*>(data))();
    return 0;
  };
  EXPECT_EQ(trl_trainer_train(run.trainer.get(), on_event, &begin, run.error), TRL_OK) << run.error.message();
  writing.join();
}

}  // namespace
