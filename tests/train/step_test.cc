// A step happens or it does not: whatever interrupts it leaves the weights alone, and the run goes on as if
// nothing had been.
#include <torch/csrc/api/include/torch/version.h>

#include <c10/core/CPUAllocator.h>

#include <limits>

#include "tensor/threads/parallel.h"
#include "train/tiny_run.h"

namespace trl::train {
namespace {

using test::expect_same;
using test::tiny_run;

Status status_of(const std::function<void()>& body, std::string* message = nullptr) {
  try {
    body();
  } catch (const Error& error) {
    if (message != nullptr) *message = error.message();
    return error.status();
  }
  return Status::ok;
}

struct UndisturbedRun {
  std::vector<at::Tensor> weights;
  std::vector<telemetry::Record> log;
};

const test::Settings kThreeSteps = {{"max_steps", "3"}, {"gradient_accumulation_steps", "2"}};

UndisturbedRun undisturbed(const test::Settings& settings) {
  test::SftRun run = tiny_run(settings);
  Trainer& trainer = run.start();
  while (trainer.step()) {
  }
  return {run.weights(), trainer.state().log_history};
}

void expect_same(const std::vector<telemetry::Record>& got, const std::vector<telemetry::Record>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_EQ(got[i].entries().size(), want[i].entries().size());
    for (size_t k = 0; k < got[i].entries().size(); ++k) {
      EXPECT_EQ(got[i].entries()[k].name, want[i].entries()[k].name);
      EXPECT_EQ(got[i].entries()[k].value, want[i].entries()[k].value) << got[i].entries()[k].name;
    }
  }
}

TEST(Step, kernels_of_the_cpu_are_refused_with_a_model_elsewhere) {
  const at::Device gpu(at::kCUDA, 0);
  const auto why = [&](const config::TrainingArguments& arguments, at::Device device) {
    std::string message;
    status_of([&] { check_device(arguments, device); }, &message);
    return message;
  };
  config::TrainingArguments arguments;
  EXPECT_EQ(why(arguments, gpu), "");
  arguments.attention = {"plugin:./kernel.so", "./kernel.so"};
  EXPECT_EQ(why(arguments, at::kCPU), "");
  EXPECT_EQ(
      why(arguments, gpu),
      "attn_implementation: plugin:./kernel.so is refused, because the model is on cuda:0, and plug-ins "
      "compute on the CPU: give sdpa, or use_cpu: true");
  arguments.fused_kernels = config::FusedKernels::on;
  EXPECT_EQ(why(arguments, at::kCPU), "");
  EXPECT_NE(why(arguments, gpu).find("fused_kernels: on"), std::string::npos);
}

TEST(Step, cancelled_anywhere_goes_on) {
  TRL_NEED_TINY_RUN();
  const UndisturbedRun want = undisturbed(kThreeSteps);
  int64_t polls = 0;
  {
    test::StopsAt count;
    test::SftRun run = tiny_run(kThreeSteps);
    Trainer& trainer = run.start();
    const base::InterruptScope scope(&count);
    while (trainer.step()) {
    }
    polls = count.polls;
  }
  ASSERT_GT(polls, 500);  // within layers, in both directions
  int cancelled = 0;
  constexpr int kRounds = 24;
  for (int round = 0; round < kRounds; ++round) {
    test::StopsAt cancel(1 + (polls - 1) * round / kRounds);  // how many there are varies a little
    test::SftRun run = tiny_run(kThreeSteps);
    Trainer& trainer = run.start();
    const base::InterruptScope scope(&cancel);
    for (;;) {
      const std::vector<at::Tensor> before = run.weights();
      const int64_t step = trainer.state().global_step;
      try {
        if (!trainer.step()) break;
      } catch (const Error& error) {
        EXPECT_EQ(error.status(), Status::cancelled);
        EXPECT_EQ(trainer.state().global_step, step);
        expect_same(run.weights(), before);
        ++cancelled;
        cancel.go_on();
      }
    }
    expect_same(run.weights(), want.weights);
    expect_same(trainer.state().log_history, want.log);
  }
  EXPECT_EQ(cancelled, kRounds);
}

TEST(Step, out_of_memory_anywhere_goes_on) {
  TRL_NEED_TINY_RUN();
  base::MemoryCounter& memory = test::memory();
  const UndisturbedRun want = undisturbed(kThreeSteps);
  test::SftRun run = tiny_run(kThreeSteps);
  Trainer& trainer = run.start();
  int refused = 0;
  std::string message;
  const std::vector<at::Tensor> before = run.weights();
  for (int64_t room = 0;; room += 64 * 1024) {
    tensor::trim();
    memory.set_limit(memory.now() + room + 1);
    if (status_of([&] { trainer.step(); }, &message) == Status::ok) break;
    EXPECT_NE(message.find("memory"), std::string::npos) << message;
    EXPECT_EQ(status_of([&] { trainer.step(); }), Status::out_of_memory);
    EXPECT_EQ(trainer.state().global_step, 0);
    expect_same(run.weights(), before);
    ++refused;
    ASSERT_LT(refused, 1000);
  }
  memory.set_limit(0);
  EXPECT_GE(refused, 5);
  while (trainer.step()) {
  }
  expect_same(run.weights(), want.weights);
  expect_same(trainer.state().log_history, want.log);
}

// What libtorch allocates by itself, behind the counter.
class WatchedAllocator final : public c10::Allocator {
 public:
  explicit WatchedAllocator(c10::Allocator& base) : base_(base) {}
#if TORCH_VERSION_MAJOR >= 2
  void copy_data(void* to, const void* from, size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }
  c10::DataPtr allocate(size_t bytes) override {
#else
  c10::DataPtr allocate(size_t bytes) const override {
#endif
    size_t seen = largest;
    while (bytes > seen && !largest.compare_exchange_weak(seen, bytes)) {
    }
    return base_.allocate(bytes);
  }
  c10::DeleterFnPtr raw_deleter() const override { return base_.raw_deleter(); }
  mutable std::atomic<size_t> largest{0};

 private:
  c10::Allocator& base_;
};

TEST(Step, every_large_buffer_is_counted) {
  TRL_NEED_TINY_RUN();
  c10::Allocator& usual = *c10::GetCPUAllocator();
  for (const char* checkpointing : {"false", "true"}) {
    test::SftRun run =
        tiny_run({{"max_steps", "2"}, {"gradient_checkpointing", checkpointing}}, {0, 63}, test::Rows{0, 3});
    Trainer& trainer = run.start();
    WatchedAllocator watched(usual);
    c10::SetCPUAllocator(&watched);
    EXPECT_TRUE(trainer.step());
    trainer.evaluate();
    c10::SetCPUAllocator(&usual);
    EXPECT_LE(watched.largest, 1024u);  // a row of hidden states has more in any model that is worth training
  }
}

// Every place of a step, and then of an evaluation, that asks for memory is refused once.
TEST(Step, every_allocation_may_fail) {
  TRL_NEED_TINY_RUN();
  const test::Settings settings = {
      {"max_steps", "2"}, {"per_device_train_batch_size", "2"}, {"gradient_checkpointing", "true"}};
  const UndisturbedRun want = undisturbed(settings);
  test::CountingHost& host = test::host();
  test::SftRun run = tiny_run(settings, {0, 63}, test::Rows{0, 1});
  Trainer& trainer = run.start();
  const std::vector<at::Tensor> before = run.weights();
  const auto sweep = [&](const std::function<void()>& body) {
    for (int64_t refused = 0;; ++refused) {
      host.charges = 0;
      host.refuse_from = refused;
      const Status status = status_of(body);
      host.refuse_from = INT64_MAX;
      if (status == Status::ok) return refused;
      EXPECT_EQ(status, Status::out_of_memory);
      EXPECT_EQ(trainer.state().global_step, 0);
      if (refused % 16 == 0) expect_same(run.weights(), before);
    }
  };
  double loss = 0;
  EXPECT_GT(sweep([&] { loss = trainer.evaluate().entries()[0].value; }), 20);
  EXPECT_EQ(trainer.evaluate().entries()[0].value, loss);
  expect_same(run.weights(), before);
  EXPECT_GT(sweep([&] { trainer.step(); }), 40);
  while (trainer.step()) {
  }
  expect_same(run.weights(), want.weights);
}

TEST(Step, failing_source_goes_on_at_the_same_batch) {
  TRL_NEED_TINY_RUN();
  const UndisturbedRun want = undisturbed(kThreeSteps);
  for (int64_t at = 0; at < 6; ++at) {
    test::SftRun run = tiny_run(kThreeSteps);
    run.train_stream().fail_at = at;
    Trainer& trainer = run.start();
    int failures = 0;
    for (bool more = true; more;) {
      try {
        more = trainer.step();
      } catch (const Error& error) {
        EXPECT_EQ(error.status(), Status::callback);
        EXPECT_EQ(error.callback_code(), 77);
        ++failures;
      }
    }
    EXPECT_EQ(failures, 1);
    expect_same(run.weights(), want.weights);
  }
}

TEST(Step, non_finite_names_step_and_rows) {
  TRL_NEED_TINY_RUN();
  const UndisturbedRun want = undisturbed(kThreeSteps);
  test::SftRun run = tiny_run(kThreeSteps);
  Trainer& trainer = run.start();
  ASSERT_TRUE(trainer.step());
  tensor::Parameter& weight = *run.model().parameters().back();
  const float kept = weight.read()->view({-1})[0].item<float>();
  weight.write()->view({-1})[0].fill_(std::numeric_limits<float>::quiet_NaN());
  std::string message;
  EXPECT_EQ(status_of([&] { trainer.step(); }, &message), Status::invalid_argument);
  EXPECT_NE(message.find("step 2 is nan (dataset rows 8, 9, 10, 11)"), std::string::npos) << message;
  EXPECT_EQ(trainer.state().global_step, 1);
  weight.write()->view({-1})[0].fill_(kept);
  while (trainer.step()) {
  }
  expect_same(run.weights(), want.weights);
}

// Work is divided by shape alone and sums are added in one order: a run repeats itself to the bit, with one
// thread or two, with or without checkpointing, in every precision.
TEST(Step, checkpointing_and_threads_change_no_bit) {
  TRL_NEED_TINY_RUN();
  const int before = tensor::threads();
  const std::vector<std::pair<const char*, const char*>> precisions = {
      {"dtype", "float32"}, {"bf16", "true"}, {"dtype", "bfloat16"}};
  int runs = 0;
  for (const auto& precision : precisions) {
    std::optional<UndisturbedRun> want;
    for (const int threads : {1, 2, 2, 1}) {
      for (const char* checkpointing : {"false", "true"}) {
        SCOPED_TRACE(fmt::format("{}={} threads {} checkpointing {}", precision.first, precision.second,
                                 threads, checkpointing));
        test::Settings settings = kThreeSteps;
        settings.push_back(precision);
        settings.push_back({"gradient_checkpointing", checkpointing});
        tensor::set_threads(threads);
        UndisturbedRun got = undisturbed(settings);
        if (want) {
          expect_same(got.weights, want->weights);
          expect_same(got.log, want->log);
        } else {
          want = std::move(got);
        }
        ++runs;
      }
    }
  }
  tensor::set_threads(before);
  EXPECT_EQ(runs, 3 * 4 * 2);
}

TEST(Step, bfloat16_weights_learn_in_bfloat16) {
  TRL_NEED_TINY_RUN();
  test::Settings settings = {{"max_steps", "8"}, {"dtype", "bfloat16"}, {"learning_rate", "2e-3"}};
  test::SftRun run = tiny_run(settings);
  Trainer& trainer = run.start();
  int64_t count = 0;
  for (const tensor::Parameter* p : run.model().parameters()) {
    EXPECT_EQ(p->dtype(), at::kBFloat16) << p->name;
    EXPECT_EQ(p->gradient_type(), at::kBFloat16) << p->name;
    count += p->count();
  }
  const int64_t padding = static_cast<int64_t>(run.model().parameters().size()) * 64 + 4096;  // views, pages
  const auto bytes = [](base::MemoryKind kind) { return test::memory().peak(kind); };
  test::memory().reset_peak();
  while (trainer.step()) {
  }
  // The table, which the head is tied to, is summed in float32.
  const int64_t table = run.model().head().count();
  EXPECT_GE(bytes(base::MemoryKind::gradients), 2 * count);
  EXPECT_LE(bytes(base::MemoryKind::gradients), 2 * count + 4 * table + padding);
  EXPECT_EQ(test::memory().now(base::MemoryKind::gradients), 0);
  EXPECT_GE(bytes(base::MemoryKind::optimizer), 2 * 2 * count);
  EXPECT_LE(bytes(base::MemoryKind::optimizer), 2 * (2 * count + padding));
  const auto& log = trainer.state().log_history;
  EXPECT_NEAR(log.front().entries()[0].value, 6.656, 0.03);  // sft_plain's
  EXPECT_NEAR(log.back().entries()[0].value, 6.017, 0.06);
}

TEST(Trainer, one_at_a_time_per_model) {
  TRL_NEED_TINY_RUN();
  test::SftRun run = tiny_run(kThreeSteps);
  run.start();
  EXPECT_EQ(status_of([&] { Trainer second(run.setup); }), Status::busy);
  run.stop();
  for (const tensor::Parameter* p : run.model().parameters()) EXPECT_FALSE(p->has_gradient()) << p->name;
  EXPECT_TRUE(run.start().step());
}

TEST(Trainer, refuses_what_it_cannot_do) {
  TRL_NEED_TINY_RUN();
  const auto creates = [](const std::function<void(train::Setup&)>& change) {
    test::SftRun run = tiny_run(kThreeSteps);
    change(run.setup);
    return status_of([&] { run.start(); });
  };
  EXPECT_EQ(creates([](train::Setup&) {}), Status::ok);
  test::SftRun run = tiny_run(kThreeSteps);
  EXPECT_EQ(status_of([&] { run.start().evaluate(); }), Status::invalid_argument);
}

data::Batch three_tokens(std::vector<int32_t> borders) {
  data::Batch batch;
  batch.input_ids = batch.labels = {1, 2, 3};
  batch.position_ids = {0, 1, 2};
  batch.cu_seqlens = std::move(borders);
  return batch;
}

TEST(CopyBatch, checks_ids_and_borders) {
  data::Batch batch = three_tokens({0, 3});
  const auto copied = [&](int64_t vocabulary) { return status_of([&] { copy_batch(batch, vocabulary); }); };
  batch.labels[0] = -100;
  EXPECT_EQ(copied(4), Status::ok);
  EXPECT_EQ(copied(3), Status::invalid_argument);
  batch.labels[1] = -1;
  EXPECT_EQ(copied(4), Status::invalid_argument);
  batch.labels[1] = 2;
  for (const std::vector<int32_t>& wrong : std::vector<std::vector<int32_t>>{{}, {0, 4}, {0, 2, 1, 3}}) {
    batch.cu_seqlens = wrong;
    EXPECT_EQ(copied(4), Status::invalid_argument);
  }
}

TEST(CopyBatch, checks_segments_and_columns) {
  data::Batch batch = three_tokens({0, 1, 2, 3});
  batch.position_ids = {0, 1, 1};
  batch.parents = {-1, 0, 0};
  batch.sequences = {1, 2};
  batch.columns["margin"] = {0.5, 1.5};
  batch.token_columns["advantage"] = {7, 8, 9};
  const MicroBatch copy = copy_batch(batch, 4);
  EXPECT_EQ(copy.sequence_labels, (std::vector<int32_t>{2, 2}));
  EXPECT_EQ(copy.columns, batch.columns);
  EXPECT_EQ(copy.segments->prefix, batch.parents);
  EXPECT_EQ(copy.targets.tokens.rows, (std::vector<int32_t>{0, 0}));
  EXPECT_EQ(copy.targets.tokens.tokens, (std::vector<int32_t>{2, 3}));
  EXPECT_EQ(copy.targets.columns.at("advantage"), (std::vector<float>{8, 9}));
  const auto refuses = [&](const auto& change) {
    data::Batch wrong = batch;
    change(wrong);
    EXPECT_EQ(status_of([&] { copy_batch(wrong, 4); }), Status::invalid_argument);
  };
  for (const int32_t parent : {1, 2, -2}) refuses([&](data::Batch& b) { b.parents[1] = parent; });
  refuses([](data::Batch& b) { b.parents.pop_back(); });
  refuses([](data::Batch& b) { b.sequences[1] = 3; });
  refuses([](data::Batch& b) { b.sequences.pop_back(); });
  refuses([](data::Batch& b) { b.columns["margin"].pop_back(); });
  refuses([](data::Batch& b) { b.token_columns["advantage"].pop_back(); });
  refuses([](data::Batch& b) { b.labels.pop_back(); });
  refuses([](data::Batch& b) { b.position_ids.push_back(0); });
}

}  // namespace
}  // namespace trl::train
