// What happens around the steps, and in which order: logs, evaluations, events, the end of a run.
#include <map>

#include "io/temporary_file.h"
#include "train/tiny_run.h"

namespace trl::train {
namespace {

using engine::EventKind;
using test::tiny_run;

const char* name_of(EventKind kind) {
  constexpr const char* kNames[] = {"begin", "step", "log", "evaluate", "save", "epoch", "end"};
  return kNames[static_cast<int>(kind)];
}

using Lines = std::vector<std::string>;

// Writes down "kind step" of every event; answers bits at chosen ones.
class Events final : public engine::EventSink {
 public:
  int32_t on_event(const engine::Event& event) noexcept override {
    seen.push_back(fmt::format("{} {}", name_of(event.kind), event.step));
    Lines& names = numbers[seen.back()];
    names.clear();
    for (const engine::Metric& metric : event.metrics) names.emplace_back(metric.name);
    const auto answer = std::find_if(answers.begin(), answers.end(),
                                     [&](const auto& one) { return one.first == seen.back(); });
    if (answer == answers.end()) return 0;
    const int32_t bits = answer->second;
    answers.erase(answer);  // each is given once
    return bits;
  }
  Lines seen;
  std::map<std::string, Lines> numbers;  // of the last such event: their names
  std::vector<std::pair<std::string, int32_t>> answers;
};

struct Watched {
  explicit Watched(const test::Settings& settings, test::Rows rows = {0, 63},
                   std::optional<test::Rows> eval_rows = {})
      : sft(tiny_run(settings, rows, eval_rows)) {
    sft.setup.events = &events;
  }
  void train() {
    trainer = &sft.start();
    train_on();
  }
  void train_on() const {
    while (trainer->step()) {
    }
    trainer->finish();
  }
  std::vector<std::string> history() const {  // names of each record, sorted
    std::vector<std::string> out;
    for (const telemetry::Record& record : trainer->state().log_history) {
      std::vector<std::string> names;
      for (const telemetry::Entry& entry : record.entries()) names.push_back(entry.name);
      std::sort(names.begin(), names.end());
      out.push_back(fmt::format("{}", fmt::join(names, " ")));
    }
    return out;
  }
  double value(size_t record, std::string_view name) const {
    for (const telemetry::Entry& entry : trainer->state().log_history.at(record).entries()) {
      if (entry.name == name) return entry.value;
    }
    ADD_FAILURE() << "record " << record << " has no " << name;
    return 0;
  }
  Events events;
  test::SftRun sft;
  Trainer* trainer = nullptr;
};

TEST(Flow, events_of_two_epochs) {
  TRL_NEED_TINY_RUN();
  Watched run({{"num_train_epochs", "2"}, {"eval_strategy", "epoch"}, {"eval_on_start", "true"}}, {0, 7},
              test::Rows{8, 13});
  run.train();
  EXPECT_EQ(run.events.seen, (Lines{"begin 0", "log 0", "evaluate 0", "step 1", "log 1", "step 2", "log 2",
                                    "epoch 2", "log 2", "evaluate 2", "step 3", "log 3", "step 4", "log 4",
                                    "epoch 4", "log 4", "evaluate 4", "log 4", "end 4"}));
  const base::Json state = base::read_json_file(run.sft.setup.arguments.output_dir + "/trainer_state.json");
  EXPECT_EQ(state["global_step"], 4);
  EXPECT_EQ(state["epoch"], 2.0);
  EXPECT_EQ(state["num_train_epochs"], 2);
  EXPECT_EQ(state["log_history"].size(), 8u);
  EXPECT_TRUE(state["log_history"][0]["epoch"].is_number_integer());  // Trainer starts with the integer 0
  EXPECT_TRUE(state["stateful_callbacks"]["TrainerControl"]["args"]["should_training_stop"].get<bool>());
}

const char* const kTrainRecord =
    "entropy epoch grad_norm learning_rate loss mean_token_accuracy num_tokens step";
const char* const kEvalRecord =
    "epoch eval_entropy eval_loss eval_mean_token_accuracy eval_num_tokens eval_runtime "
    "eval_samples_per_second "
    "eval_steps_per_second step";
const char* const kSummary =
    "epoch step total_flos train_loss train_runtime train_samples_per_second train_steps_per_second";
const char* const kSummaryWithRest =
    "entropy epoch mean_token_accuracy num_tokens step total_flos train_loss train_runtime "
    "train_samples_per_second "
    "train_steps_per_second";

// SFTTrainer.log adds what was measured since the last log, also to the summary, unless an evaluation came
// last.
TEST(Flow, summary_takes_the_rest) {
  TRL_NEED_TINY_RUN();
  Watched run({{"max_steps", "5"}, {"logging_steps", "3"}});
  run.train();
  EXPECT_EQ(run.history(), (Lines{kTrainRecord, kSummaryWithRest}));
  Watched evaluated(
      {{"max_steps", "5"}, {"logging_steps", "3"}, {"eval_strategy", "steps"}, {"eval_steps", "4"}}, {0, 63},
      test::Rows{0, 2});
  evaluated.train();
  EXPECT_EQ(evaluated.history(), (Lines{kTrainRecord, kEvalRecord, kEvalRecord, kSummary}));
  EXPECT_EQ(evaluated.value(1, "step"), 4);
  EXPECT_EQ(evaluated.value(2, "step"), 5);  // the last step is evaluated as well
}

TEST(Flow, logging_first_step_ratio_and_none) {
  TRL_NEED_TINY_RUN();
  Watched first({{"max_steps", "4"}, {"logging_steps", "0.5"}, {"logging_first_step", "true"}});
  first.train();
  EXPECT_EQ(first.history(), (Lines{kTrainRecord, kTrainRecord, kTrainRecord, kSummary}));
  EXPECT_EQ(first.value(0, "step"), 1);
  EXPECT_EQ(first.value(1, "step"), 2);
  EXPECT_EQ(first.value(2, "step"), 4);
  Watched none({{"max_steps", "2"}, {"logging_strategy", "no"}});
  none.train();
  EXPECT_EQ(none.history(), Lines{kSummaryWithRest});
  Watched epoch({{"num_train_epochs", "1"}, {"logging_strategy", "epoch"}}, {0, 7});
  epoch.train();
  EXPECT_EQ(epoch.history(), (Lines{kTrainRecord, kSummary}));
  EXPECT_EQ(epoch.value(0, "epoch"), 1.0);
}

TEST(Flow, eval_delay) {
  TRL_NEED_TINY_RUN();
  Watched run({{"max_steps", "4"},
               {"logging_strategy", "no"},
               {"eval_strategy", "steps"},
               {"eval_steps", "1"},
               {"eval_delay", "3"}},
              {0, 63}, test::Rows{0, 2});
  run.train();
  ASSERT_EQ(run.history().size(), 3u);
  EXPECT_EQ(run.value(0, "step"), 3);
  EXPECT_EQ(run.value(1, "step"), 4);
}

TEST(Flow, bits_of_events) {
  TRL_NEED_TINY_RUN();
  const test::TemporaryDirectory directory;
  Watched run({{"max_steps", "8"}, {"output_dir", directory.path().c_str()}}, {0, 63}, test::Rows{0, 2});
  run.events.answers = {{"step 2", engine::kEventEvaluate | engine::kEventSave},
                        {"log 3", engine::kEventStop}};
  run.train();
  EXPECT_EQ(run.events.seen, (Lines{"begin 0", "step 1", "log 1", "step 2", "log 2", "log 2", "evaluate 2",
                                    "save 2", "step 3", "log 3", "epoch 3", "log 3", "end 3"}));
  EXPECT_EQ(base::list_directory(directory.path()), (Lines{"checkpoint-2", "trainer_state.json"}));
  EXPECT_FALSE(run.trainer->complete());
  run.train_on();
  EXPECT_TRUE(run.trainer->complete());
  EXPECT_FALSE(run.trainer->step());
  EXPECT_EQ(run.trainer->state().global_step, 8);
}

TEST(Flow, every_event_may_be_answered_with_every_bit) {
  TRL_NEED_TINY_RUN();
  const std::pair<const char*, int64_t> kEvents[] = {{"begin 0", 0},    {"step 2", 2}, {"log 2", 2},
                                                     {"evaluate 1", 1}, {"save 3", 3}, {"epoch 2", 2},
                                                     {"end 4", 4}};
  for (const auto& [event, steps] : kEvents) {
    for (const int32_t bit : {engine::kEventStop, engine::kEventSave, engine::kEventEvaluate}) {
      const test::TemporaryDirectory directory;
      const std::string output = directory.path();
      Watched run({{"num_train_epochs", "2"}, {"output_dir", output.c_str()}}, {0, 7}, test::Rows{8, 9});
      run.events.answers = {{"step 1", engine::kEventEvaluate}, {"step 3", engine::kEventSave}, {event, bit}};
      run.train();
      const auto count = [&](std::string_view kind) {
        return std::count_if(run.events.seen.begin(), run.events.seen.end(),
                             [&](const std::string& line) { return line.starts_with(kind); });
      };
      const bool stops = bit == engine::kEventStop;
      EXPECT_EQ(run.trainer->state().global_step, stops ? steps : 4) << event;
      EXPECT_EQ(count("save"), (!stops || steps >= 3) + (bit == engine::kEventSave)) << event;
      EXPECT_EQ(count("evaluate"), (!stops || steps >= 1) + (bit == engine::kEventEvaluate)) << event;
      EXPECT_EQ(count("end"), 1) << event;
    }
  }
}

TEST(Flow, events_have_their_numbers) {
  TRL_NEED_TINY_RUN();
  Watched run({{"num_train_epochs", "1"}, {"eval_strategy", "epoch"}}, {0, 7}, test::Rows{8, 9});
  run.train();
  const auto names = [&](std::string_view event) {
    return fmt::format("{}", fmt::join(run.events.numbers.at(std::string(event)), " "));
  };
  EXPECT_EQ(names("begin 0"), "num_examples num_train_epochs train_batch_size gradient_accumulation_steps");
  EXPECT_EQ(names("step 1"),
            "loss grad_norm learning_rate entropy mean_token_accuracy num_tokens epoch step");
  EXPECT_TRUE(names("evaluate 2").starts_with("eval_loss eval_runtime ")) << names("evaluate 2");
  EXPECT_EQ(names("end 2"),
            "train_runtime train_samples_per_second train_steps_per_second total_flos train_loss epoch step");
}

TEST(Flow, a_checkpoint_that_cannot_be_written_is_left_out) {
  TRL_NEED_TINY_RUN();
  const test::TemporaryDirectory directory;
  Watched run(test::Settings{{"max_steps", "2"}, {"output_dir", directory.path().c_str()}});
  run.events.answers = {{"step 1", engine::kEventSave}};
  int attempts = 0;
  const base::WriteFault fault = [&](const std::string&, size_t) {
    if (++attempts == 1) fail(Status::io, "disk full");
  };
  run.sft.setup.write_fault = &fault;
  run.trainer = &run.sft.start();
  EXPECT_TRUE(run.trainer->step());
  EXPECT_EQ(run.trainer->state().global_step, 1);
  EXPECT_TRUE(run.trainer->step());
  EXPECT_EQ(run.trainer->state().global_step, 2);
  EXPECT_EQ(attempts, 1);
  EXPECT_EQ(run.events.seen, (Lines{"begin 0", "step 1", "log 1", "step 2", "log 2", "epoch 2"}));
}

// Weighted by rows: batches of 3, 3 and 1.
TEST(Flow, evaluation_is_the_mean_over_rows) {
  TRL_NEED_TINY_RUN();
  const auto loss_of = [](test::Rows rows, const char* batch) {
    Watched run({{"max_steps", "1"}, {"per_device_eval_batch_size", batch}}, {0, 63}, rows);
    run.trainer = &run.sft.start();
    for (const telemetry::Entry& entry : run.trainer->evaluate().entries()) {
      if (entry.name == "eval_loss") return entry.value;
    }
    return -1.0;
  };
  const double a = loss_of({10, 12}, "3"), b = loss_of({13, 15}, "3"), c = loss_of({16, 16}, "3");
  EXPECT_NEAR(loss_of({10, 16}, "3"), (3 * a + 3 * b + c) / 7, 1e-6);
  EXPECT_GT(std::abs(a - c), 1e-3);
}

TEST(Flow, metrics_of_a_step) {
  TRL_NEED_TINY_RUN();
  Watched run({{"max_steps", "2"}, {"logging_strategy", "no"}});
  run.trainer = &run.sft.start();
  ASSERT_TRUE(run.trainer->step());
  std::vector<std::string> names;
  for (const telemetry::Entry& entry : run.trainer->metrics().entries()) names.push_back(entry.name);
  EXPECT_EQ(names, (Lines{"loss", "grad_norm", "learning_rate", "entropy", "mean_token_accuracy",
                          "num_tokens", "epoch", "step"}));
  EXPECT_NEAR(run.trainer->metrics().entries()[0].value, 6.65606403, 1e-4);
  EXPECT_NEAR(run.trainer->metrics().entries()[1].value, 3.2280302, 1e-4);
}

TEST(Flow, finish_without_a_step) {
  TRL_NEED_TINY_RUN();
  Watched run(test::Settings{{"max_steps", "2"}});
  run.trainer = &run.sft.start();
  run.trainer->finish();
  run.trainer->finish();
  EXPECT_FALSE(run.trainer->step());
  EXPECT_EQ(run.events.seen, (Lines{"log 0", "end 0"}));
  EXPECT_EQ(run.value(0, "train_loss"), 0.0);
}

}  // namespace
}  // namespace trl::train
