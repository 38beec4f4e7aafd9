// trl_runtime_cancel: every kind of call ends with it, at any moment and without a trace, and later ones do
// not.
#include <signal.h>
#include <sys/time.h>

#include <atomic>
#include <ctime>
#include <optional>
#include <random>
#include <thread>

#include "engine/run.h"

namespace {

using host::Error;

#define NEED_MODEL() NEED_GOLDEN("models/qwen2/model.safetensors")

// Cancels in a phase of the calls of its runtime.
struct CancelsIn {
  std::string phase;
  int heard = 0;
  host::Runtime runtime = host::runtime();
  explicit CancelsIn(const char* in) : phase(in) {
    EXPECT_EQ(trl_runtime_set_progress(runtime.get(), on_progress, this, nullptr, nullptr), TRL_OK);
  }
  static int32_t on_progress(void* data, const char* now, int64_t, int64_t) {
    auto* self = static_cast<CancelsIn*>(data);
    if (self->phase == now && self->heard++ == 0) trl_runtime_cancel(self->runtime.get());
    return 0;
  }
};

// call(runtime, error) is cancelled in the phase, and done when it is made again.
template <class Call>
void expect_cancelled(const char* phase, const Call& call) {
  CancelsIn cancels(phase);
  Error error;
  EXPECT_EQ(call(cancels.runtime.get(), error), TRL_E_CANCELLED) << phase << ": " << error.message();
  EXPECT_EQ(cancels.heard, 1) << phase;
  EXPECT_EQ(call(cancels.runtime.get(), error), TRL_OK) << phase << ": " << error.message();
}

std::string many_rows(int count) {
  std::string rows;
  for (int i = 0; i < count; ++i) rows += "{\"text\": \"row " + std::to_string(i) + " of many\"}\n";
  return rows;
}

TEST(Cancel, EndsOpeningAModel) {
  NEED_MODEL();
  expect_cancelled("weights", [](trl_runtime* runtime, trl_error** error) {
    trl_model* model = nullptr;
    const trl_status status =
        trl_model_open(runtime, host::golden("models/qwen2").c_str(), nullptr, &model, error);
    EXPECT_EQ(model != nullptr, status == TRL_OK);
    trl_model_destroy(model);
    return status;
  });
}

TEST(Cancel, EndsCountingRows) {
  const host::Scratch scratch;
  host::write_file(scratch / "rows.jsonl", many_rows(20000));
  expect_cancelled("rows", [&](trl_runtime* runtime, trl_error** error) {
    trl_dataset* made = nullptr;
    int64_t count = 0;
    EXPECT_EQ(trl_dataset_open(runtime, (scratch / "rows.jsonl").c_str(), nullptr, &made, error), TRL_OK);
    const host::Dataset rows(made);
    const trl_status status = trl_dataset_get_row_count(made, &count, error);
    EXPECT_EQ(count, status == TRL_OK ? 20000 : 0);
    return status;
  });
}

TEST(Cancel, EndsTheCreationOfATrainerInEveryPhase) {
  NEED_MODEL();
  const host::Scratch scratch;
  for (const char* phase : {"rows", "tokenize", "plan", "weights"}) {
    expect_cancelled(phase, [&](trl_runtime* runtime, trl_error** error) {
      return host::create_trainer(runtime, scratch, error);
    });
  }
}

TEST(Cancel, EndsAnEvaluation) {
  NEED_MODEL();
  const host::Dataset rows = host::open_rows(host::golden("data/datasets/train_lm.jsonl"));
  const host::Config config = host::config(host::tiny("unused"));
  for (const char* phase : {"weights", "tokenize", "evaluate"}) {
    expect_cancelled(phase, [&](trl_runtime* runtime, trl_error** error) {
      trl_evaluator* made = nullptr;
      const trl_status status = trl_evaluator_create(runtime, config.get(), &made, error);
      EXPECT_EQ(made != nullptr, status == TRL_OK);
      const host::Evaluator evaluator(made);
      const trl_metrics* metrics = nullptr;
      return status == TRL_OK ? trl_evaluator_evaluate(made, rows.get(), &metrics, error) : status;
    });
  }
}

TEST(Cancel, EndsAConversionAndLeavesNothing) {
  NEED_MODEL();
  const host::Scratch scratch;
  const std::string target = scratch / "model.gguf";
  int calls = 0;
  expect_cancelled("save", [&](trl_runtime* runtime, trl_error** error) {
    const trl_status status =
        trl_model_convert(runtime, host::golden("models/qwen2").c_str(), target.c_str(), nullptr, error);
    const auto files = std::distance(std::filesystem::directory_iterator(scratch / ""), {});
    EXPECT_EQ(files, status == TRL_OK ? 1 : 0) << calls;
    ++calls;
    return status;
  });
}

TEST(Cancel, EndsSavingAModelAndLeavesNothing) {
  NEED_MODEL();
  const host::Scratch scratch;
  expect_cancelled("save", [&](trl_runtime* runtime, trl_error** error) {
    trl_model* made = nullptr;
    EXPECT_EQ(trl_model_open(runtime, host::golden("models/qwen2").c_str(), nullptr, &made, error), TRL_OK);
    const host::Model model(made);
    const trl_status status = trl_model_save(made, (scratch / "saved").c_str(), nullptr, error);
    EXPECT_EQ(std::filesystem::exists(scratch / "saved"), status == TRL_OK);
    return status;
  });
}

struct Generating {
  host::Scratch scratch;
  const std::filesystem::path path = scratch / "model";  // with positions for long prompts
  host::Model model;
  host::Generator generator;
  explicit Generating(trl_runtime* runtime) {
    host::copy_model("models/qwen2", path);
    host::edit_config(path, [](host::Json& c) { c["max_position_embeddings"] = 8192; });
    trl_model* opened = nullptr;
    trl_generator* made = nullptr;
    Error error;
    EXPECT_EQ(trl_model_open(runtime, path.c_str(), nullptr, &opened, error), TRL_OK) << error.message();
    model.reset(opened);
    EXPECT_EQ(trl_generator_create(opened, nullptr, &made, error), TRL_OK) << error.message();
    generator.reset(made);
  }
  // whom: the runtime that is cancelled with the third token.
  struct Token {
    trl_runtime* whom;
    bool cancels;
    int tokens = 0;
  };
  trl_status run(Token& token, trl_error** error, const char* tokens = "12") const {
    const char* const prompts[] = {"The small kernel"};
    const auto options = host::config({{"generate.max_new_tokens", tokens}});
    trl_completions* made = nullptr;
    const trl_status status = trl_generator_generate(
        generator.get(), prompts, nullptr, 1, options.get(),
        [](void* data, size_t, int32_t, const char*, size_t, double) -> int32_t {
          auto* self = static_cast<Token*>(data);
          if (++self->tokens == 3 && self->cancels) trl_runtime_cancel(self->whom);
          return 0;
        },
        &token, &made, error);
    EXPECT_EQ(made != nullptr, status == TRL_OK);
    trl_completions_destroy(made);
    return status;
  }
};

TEST(Cancel, EndsAGenerationOfItsOwnRuntimeAlone) {
  NEED_MODEL();
  const host::Runtime own = host::runtime(), other = host::runtime();
  const Generating generating(own.get());
  Error error;
  for (trl_runtime* const whom : {own.get(), static_cast<trl_runtime*>(nullptr)}) {
    Generating::Token token{whom, true};
    EXPECT_EQ(generating.run(token, error), TRL_E_CANCELLED);
    EXPECT_EQ(token.tokens, 3);
  }
  Generating::Token of_other{other.get(), true}, none{nullptr, false};
  EXPECT_EQ(generating.run(of_other, error), TRL_OK) << error.message();
  trl_runtime_cancel(own.get());  // no call is in progress
  trl_runtime_cancel(nullptr);
  EXPECT_EQ(generating.run(none, error), TRL_OK) << error.message();
  EXPECT_EQ(none.tokens, of_other.tokens);
  EXPECT_GT(none.tokens, 3);
}

struct CancelledTraining {
  host::Scratch scratch;
  host::Runtime runtime = host::runtime();
  host::Dataset rows = host::rows(host::read_file(host::golden("data/datasets/train_lm.jsonl")));
  host::Trainer trainer;
  CancelledTraining()
      : trainer(host::trainer(
            host::with(host::tiny(scratch / "out"), {{"save_strategy", "no"}, {"report_to", "none"}}),
            rows.get(), nullptr, runtime.get())) {}
  std::string weights() const {
    EXPECT_EQ(trl_trainer_save(trainer.get(), (scratch / "saved").c_str(), nullptr, nullptr), TRL_OK);
    return host::read_file(scratch / "saved" / "model.safetensors");
  }
};

TEST(Cancel, EndsATrainingThatContinuesAsIfItHadNot) {
  NEED_MODEL();
  CancelledTraining run, whole;
  ASSERT_EQ(trl_trainer_train(whole.trainer.get(), nullptr, nullptr, nullptr), TRL_OK);
  const auto on_event = [](void* data, int32_t kind, const trl_metrics* metrics) -> int32_t {
    if (kind == TRL_ON_STEP && host::metric(metrics, "step") == 3)
      trl_runtime_cancel(static_cast<trl_runtime*>(data));
    return 0;
  };
  Error error;
  EXPECT_EQ(trl_trainer_train(run.trainer.get(), on_event, run.runtime.get(), error), TRL_E_CANCELLED);
  EXPECT_EQ(host::state(run.trainer.get())["global_step"], 3);
  trl_runtime_cancel(run.runtime.get());  // no call is in progress
  EXPECT_EQ(trl_trainer_train(run.trainer.get(), nullptr, nullptr, error), TRL_OK) << error.message();
  EXPECT_TRUE(run.weights() == whole.weights());
}

TEST(Cancel, EndsAHeldCall) {
  NEED_MODEL();
  CancelledTraining run;
  trl_trainer_pause(run.trainer.get());
  std::atomic<bool> over{false};
  std::thread other([&] {
    EXPECT_EQ(trl_trainer_train(run.trainer.get(), nullptr, nullptr, nullptr), TRL_E_CANCELLED);
    over = true;
  });
  while (!over) {  // the call begins at some moment
    trl_runtime_cancel(run.runtime.get());
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  other.join();
}

TEST(Cancel, AnotherGenerationThatWaitsForTheModelEnds) {
  NEED_MODEL();
  const host::Runtime runtime = host::runtime();
  const Generating first(runtime.get());
  trl_generator* made = nullptr;
  ASSERT_EQ(trl_generator_create(first.model.get(), nullptr, &made, nullptr), TRL_OK);
  const host::Generator second(made);
  std::atomic<int> over{0};
  const auto generate = [&](trl_generator* generator) {
    const char* const prompts[] = {"The small kernel"};
    const auto options =
        host::config({{"generate.max_new_tokens", "1000000"}, {"generate.ignore_eos", "true"}});
    EXPECT_EQ(trl_generator_generate(generator, prompts, nullptr, 1, options.get(), nullptr, nullptr, nullptr,
                                     nullptr),
              TRL_E_CANCELLED);
    ++over;
  };
  std::thread one([&] { generate(first.generator.get()); }), two([&] { generate(second.get()); });
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  while (over < 2) {
    trl_runtime_cancel(nullptr);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  one.join();
  two.join();
}

// Handlers interrupt a call wherever it is, even while it registers itself with the process.
TEST(Cancel, IsMadeInASignalHandler) {
  NEED_MODEL();
  const host::Runtime runtime = host::runtime();
  const Generating generating(runtime.get());
  struct sigaction action {
  }, before{};
  action.sa_handler = [](int) { trl_runtime_cancel(nullptr); };
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  ASSERT_EQ(sigaction(SIGALRM, &action, &before), 0);
  const itimerval often{{0, 700}, {0, 700}}, never{};
  int cancelled = 0;
  setitimer(ITIMER_REAL, &often, nullptr);
  for (int i = 0; i < 200; ++i) {
    Generating::Token none{nullptr, false};
    const trl_status status = generating.run(none, nullptr);
    EXPECT_TRUE(status == TRL_OK || status == TRL_E_CANCELLED) << status;
    cancelled += status == TRL_E_CANCELLED;
  }
  setitimer(ITIMER_REAL, &never, nullptr);
  sigaction(SIGALRM, &before, nullptr);
  EXPECT_GT(cancelled, 0);
  Generating::Token none{nullptr, false};
  Error error;
  EXPECT_EQ(generating.run(none, error), TRL_OK) << error.message();
}

double cpu_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

// Calls with a request at a random moment of the call. Returns the processor time from the request to the end
// of the call; nothing: the call had ended before.
template <class Call>
std::optional<double> ends_after(trl_runtime* runtime, std::mt19937& random, const Call& call) {
  std::atomic<double> asked{0};
  std::thread other([&, ms = std::uniform_int_distribution<int>(0, 700)(random)] {
    std::this_thread::sleep_for(std::chrono::milliseconds(ms));
    trl_runtime_cancel(runtime);
    asked = cpu_seconds();  // before the call, this thread could lose its processor in between
  });
  const trl_status status = call();
  const double ended = cpu_seconds();
  other.join();
  if (status != TRL_E_CANCELLED) return std::nullopt;
  return ended - asked;
}

// Makes the call twelve times. It ends within 100 ms of work of the threads, which a loaded machine gives
// when it can.
template <class Call>
void expect_ends_in_time(trl_runtime* runtime, const Call& call) {
  std::mt19937 random(11);
  double slowest = 0;
  int cancelled = 0;
  for (int i = 0; i < 12; ++i) {
    const std::optional<double> seconds = ends_after(runtime, random, call);
    if (!seconds) continue;
    ++cancelled;
    slowest = std::max(slowest, *seconds);
  }
  EXPECT_GT(cancelled, 0);
  EXPECT_LT(slowest, 0.1);
}

TEST(Cancel, EndsACallWithinItsTimeAtAnyMoment) {
  NEED_MODEL();
  const host::Scratch scratch;
  host::write_file(scratch / "rows.jsonl", many_rows(100000));
  const host::Runtime runtime = host::runtime({{"runtime.threads", "1"}});
  const Generating loaded(runtime.get());  // while libtorch itself is loaded, nothing can end a call
  const host::Dataset rows = host::open_rows(scratch / "rows.jsonl");
  const host::Config config = host::config(host::with(
      host::tiny(scratch / "out"), {{"packing", "true"}, {"max_length", "64"}, {"dataset_num_proc", "1"}}));
  expect_ends_in_time(runtime.get(), [&] {
    trl_trainer* trainer = nullptr;
    const trl_status status =
        trl_trainer_create(runtime.get(), config.get(), rows.get(), nullptr, &trainer, nullptr);
    trl_trainer_destroy(trainer);
    return status;
  });
}

// Prompts are computed in large steps, and then tokens of all of them.
TEST(Cancel, EndsAGenerationWithinItsTimeAtAnyMoment) {
  NEED_MODEL();
  const host::Runtime runtime = host::runtime({{"runtime.threads", "1"}});
  const Generating generating(runtime.get());
  std::vector<std::string> texts;
  std::vector<const char*> prompts;
  for (int i = 0; i < 64; ++i) {
    std::string& text = texts.emplace_back(std::to_string(i));
    for (int word = 0; word < 300; ++word) text += " it" + std::to_string((i + word) % 10);
  }
  for (const std::string& text : texts) prompts.push_back(text.c_str());
  const auto options =
      host::config({{"generate.max_new_tokens", "1000000"}, {"generate.ignore_eos", "true"}});
  expect_ends_in_time(runtime.get(), [&] {
    return trl_generator_generate(generating.generator.get(), prompts.data(), nullptr, prompts.size(),
                                  options.get(), nullptr, nullptr, nullptr, nullptr);
  });
}

}  // namespace
