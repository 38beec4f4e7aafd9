// share_prefix: runs whose rows are laid out as trees learn what they learn with each row by itself, up to
// the rounding of sums, and say so in the same numbers.
#include "train/batches/batches.h"

#include <random>

#include "config/lora_config.h"
#include "support/error_of.h"
#include "train/family_model.h"
#include "train/forwarded_source.h"

namespace trl::train::sharing_test {
namespace {

using test::joined;
using test::Settings;
using test::value;

// Documents that fork at random, up to four times, laid out as data/batch/collate.h does it: four for each
// batch and more, of which some are equal and some the beginning of others. Of pairs, the second half is
// rejected.
class RandomRows final : public engine::BatchSource {
 public:
  explicit RandomRows(int64_t batches, int32_t shortest = 1) {
    std::mt19937 random(5);
    for (int64_t b = 0; b < batches; ++b) {
      std::vector<Row> rows;
      grow(random, {}, 0, shortest, rows);
      grow(random, {}, 0, shortest, rows);
      rows.push_back(rows.front());
      if (rows.size() % 2 != 0) rows.push_back(rows[1]);
      std::shuffle(rows.begin(), rows.end(), random);
      add(rows);
    }
  }

  int64_t batches_per_epoch() noexcept override { return std::ssize(batches_); }
  int64_t rows() noexcept override { return -1; }
  int32_t start_pass(int64_t, engine::ErrorSink&) noexcept override {
    next_ = 0;
    return 0;
  }
  int32_t start_epoch(int64_t, int64_t skip, std::span<const int64_t>, engine::ErrorSink&) noexcept override {
    next_ = static_cast<size_t>(skip);
    return 0;
  }
  int32_t next(const data::Batch** out, engine::ErrorSink&) noexcept override {
    if (next_ == batches_.size()) return static_cast<int32_t>(Status::end);
    *out = &batches_[next_++];
    return 0;
  }

 private:
  struct Row {
    std::vector<int32_t> ids, labels;
  };
  static void grow(std::mt19937& random, Row row, int depth, int32_t shortest, std::vector<Row>& out) {
    const bool answered = depth > 0 && random() % 3 > 0;
    for (auto i = static_cast<int32_t>(random() % 25) + shortest; i > 0; --i) {
      row.ids.push_back(static_cast<int32_t>(random() % 150));
      row.labels.push_back(answered ? row.ids.back() : -100);
    }
    const auto forks = depth == 4 ? 0 : 1 + random() % 2;
    for (size_t i = 0; i < forks; ++i) grow(random, row, depth + 1, shortest, out);
    if (forks == 0 || random() % 5 == 0) out.push_back(row);
  }
  void add(const std::vector<Row>& rows) {
    data::Batch& b = batches_.emplace_back();
    b.cu_seqlens.push_back(0);
    for (const Row& row : rows) {
      for (size_t i = 0; i < row.ids.size(); ++i) b.position_ids.push_back(static_cast<int32_t>(i));
      b.input_ids.insert(b.input_ids.end(), row.ids.begin(), row.ids.end());
      b.labels.insert(b.labels.end(), row.labels.begin(), row.labels.end());
      b.cu_seqlens.push_back(static_cast<int32_t>(b.input_ids.size()));
      b.row_ids.push_back(b.rows++);
      b.width = std::max(b.width, std::ssize(row.ids));
    }
    b.input_numel = b.width * b.rows;
    b.num_tokens = b.non_padding_tokens = b.tokens();
  }

  std::vector<data::Batch> batches_;
  size_t next_ = 0;
};

struct Outcome {
  std::map<std::string, at::Tensor> gradients;  // of the first step
  std::vector<telemetry::Record> steps;
  telemetry::Record evaluation;
  std::map<std::string, at::Tensor> weights;
  double shared = 0;  // tokens
};

struct Kind {
  Settings settings;
  const char* adapter = nullptr;
  double relative = 2e-5;
  const char* dataset = nullptr;  // rows of this file, not random ones
};

Outcome outcome(const Kind& kind, const std::string& model, const char* share_prefix) {
  const Settings usual = {{"optim", "sgd"}, {"max_steps", "3"}, {"gradient_accumulation_steps", "2"}};
  const auto config =
      test::tiny_config(joined(joined(usual, kind.settings), {{"share_prefix", share_prefix}}));
  const std::string rows = kind.dataset != nullptr ? kind.dataset : "data/datasets/train_lm.jsonl";
  test::SftRun run(kind.dataset != nullptr ? config : test::tiny_config({}), model, test::golden_path(rows),
                   {0, 31}, test::Rows{0, 7});
  run.setup.arguments = config::training_arguments(config);
  RandomRows train(6), eval(2);
  if (kind.dataset == nullptr) {
    run.setup.train = &train;
    run.setup.eval = &eval;
  }
  if (kind.adapter != nullptr) {
    const config::LoraConfig lora =
        config::read_lora_config(base::parse_json(kind.adapter, "test"), "test", Status::format);
    model::Adapter& made = run.model().adapters().add("default", lora, at::kFloat);
    made.start(7);
    for (tensor::Parameter* p : made.parameters())
      if (p->name.find("lora_B") != std::string::npos) p->write()->fill_(0.01);
    run.model().train_only(made);
  }
  Trainer& trainer = run.start();
  Outcome out;
  for (tensor::Parameter* p : run.model().all_parameters()) {
    if (p->has_gradient())
      p->on_complete([&out, p] { out.gradients.try_emplace(p->name, p->gradient().to(at::kFloat)); });
  }
  while (trainer.step()) {
    out.steps.push_back(trainer.metrics());
    out.shared += std::max(0.0, value(trainer.metrics(), "shared_tokens"));
  }
  out.evaluation = trainer.evaluate();
  for (tensor::Parameter* p : run.model().all_parameters()) out.weights.emplace(p->name, p->read()->clone());
  return out;
}

void expect_near(const telemetry::Record& got, const telemetry::Record& want, double relative) {
  size_t compared = 0;
  for (const telemetry::Entry& entry : want.entries()) {
    if (entry.name.find("_runtime") != std::string::npos ||
        entry.name.find("per_second") != std::string::npos)
      continue;
    ++compared;
    EXPECT_NEAR(value(got, entry.name), entry.value, relative * std::max(0.1, std::abs(entry.value)))
        << entry.name;
  }
  EXPECT_GT(compared, 3u);
}

void expect_near(const std::map<std::string, at::Tensor>& got, const std::map<std::string, at::Tensor>& want,
                 double relative) {
  ASSERT_EQ(got.size(), want.size());
  for (const auto& [name, exact] : want) {
    const double largest = exact.abs().max().item<double>();
    EXPECT_LE((got.at(name) - exact).abs().max().item<double>(), relative * largest + 1e-9) << name;
  }
}

void expect_the_same(const std::string& model, const Kind& kind) {
  std::string text;
  for (const auto& [key, setting] : kind.settings) text += fmt::format("{}: {} ", key, setting);
  SCOPED_TRACE(text + (kind.adapter != nullptr ? kind.adapter : ""));
  const Outcome got = outcome(kind, model, "true"), want = outcome(kind, model, "false");
  EXPECT_GT(got.shared, kind.dataset == nullptr ? 200 : 20);
  EXPECT_EQ(want.shared, 0);
  ASSERT_EQ(got.steps.size(), want.steps.size());
  for (size_t i = 0; i < want.steps.size(); ++i) expect_near(got.steps[i], want.steps[i], kind.relative);
  expect_near(got.evaluation, want.evaluation, kind.relative);
  expect_near(got.gradients, want.gradients, kind.relative);
  expect_near(got.weights, want.weights, kind.relative);
}

constexpr const char* kLora = R"({"r": 4, "lora_alpha": 8, "target_modules": "all-linear"})";

TEST(Sharing, SftLearnsTheSame) {
  TRL_NEED_TINY_RUN();
  const std::string model = test::golden_path("models/qwen2");
  for (const Kind& kind : std::vector<Kind>{{{}},
                                            {{{"gradient_checkpointing", "true"}}},
                                            {{{"fused_kernels", "off"}, {"label_smoothing_factor", "0.1"}}},
                                            {{{"loss_type", "dft"}, {"max_tokens_per_pass", "150"}}},
                                            {{{"use_peft", "true"}}, kLora},
                                            {{{"use_peft", "true"},
                                              {"gradient_checkpointing", "true"},
                                              {"recompute", "selective"},
                                              {"max_tokens_per_pass", "100"}},
                                             kLora}})
    expect_the_same(model, kind);
}

TEST(Sharing, DpoLearnsTheSame) {
  TRL_NEED_TINY_RUN();
  const std::string model = test::golden_path("models/qwen2");
  for (const Kind& kind :
       std::vector<Kind>{{{{"beta", "0.5"}}},
                         {{{"loss_type", "[sigmoid, sft]"}, {"gradient_checkpointing", "true"}}},
                         {{{"use_weighting", "true"}, {"ld_alpha", "0.5"}, {"max_tokens_per_pass", "200"}}},
                         {{{"use_peft", "true"}, {"gradient_checkpointing", "true"}}, kLora},
                         {{{"fused_kernels", "off"}, {"use_peft", "true"}}, kLora}})
    expect_the_same(model, {joined({{"method", "dpo"}}, kind.settings), kind.adapter, kind.relative});
}

// Windows, caps of scores, positions that are learned, and routers whose statistics count each row.
TEST(Sharing, LearnsTheSameInEveryFamily) {
  TRL_NEED_TINY_RUN();
  for (const char* family : {"gemma2", "mistral_window", "gpt_neox", "mixtral", "qwen2_moe"}) {
    SCOPED_TRACE(family);
    const test::FamilyModel model(family);
    expect_the_same(model.path(), {{{"learning_rate", "1e-2"}}, nullptr, 1e-4});
  }
}

// Rows as they come from a file: packed, of a batch without padding, and pairs.
TEST(Sharing, RowsOfFilesLearnTheSame) {
  TRL_NEED_TINY_RUN();
  const std::string model = test::golden_path("models/qwen2");
  for (const Kind& kind : std::vector<Kind>{
           {{{"packing", "true"}, {"max_length", "128"}}, nullptr, 2e-5, "data/datasets/train_chat.jsonl"},
           {{{"padding_free", "true"}, {"max_length", "null"}},
            kLora,
            2e-5,
            "data/datasets/train_chat.jsonl"},
           {{{"method", "dpo"}}, nullptr, 2e-5, "data/datasets/train_pref_chat.jsonl"},
           {{{"method", "dpo"}, {"padding_free", "true"}, {"max_length", "null"}},
            kLora,
            2e-5,
            "data/datasets/train_pref.jsonl"}})
    expect_the_same(model, kind);
}

// Of steps 2 and 3 of 3, a record of both or of the last alone, in a run that was interrupted too.
TEST(Sharing, RecordsHaveTheSharedTokens) {
  TRL_NEED_TINY_RUN();
  const auto start = [] {
    return test::SftRun(test::tiny_config({{"method", "dpo"}, {"logging_steps", "2"}, {"max_steps", "3"}}),
                        test::golden_path("models/qwen2"),
                        test::golden_path("data/datasets/train_pref_chat.jsonl"), {0, 31});
  };
  const auto counts = [](Trainer& trainer) {
    trainer.finish();
    std::vector<double> out;
    for (const telemetry::Record& record : trainer.state().log_history)
      out.push_back(value(record, "shared_tokens"));
    return out;
  };
  const test::Scratch checkpoint;
  test::SftRun run = start(), resumed = start();
  Trainer& trainer = run.start();
  std::vector<double> steps;
  while (trainer.step()) {
    steps.push_back(value(trainer.metrics(), "shared_tokens"));
    if (steps.size() == 1) trainer.save_checkpoint(checkpoint / "one");
  }
  ASSERT_EQ(steps.size(), 3u);
  EXPECT_GT(std::min(steps[0], steps[1]), 16);
  const std::vector<double> whole = counts(trainer);
  EXPECT_EQ(whole, (std::vector<double>{steps[0] + steps[1], steps[2]}));
  Trainer& again = resumed.start();
  again.resume(checkpoint / "one");
  while (again.step()) {
  }
  EXPECT_EQ(counts(again), whole);
}

class Lines final : public base::LogSink {
 public:
  void write(base::LogLevel, std::string_view, std::string_view text) noexcept override {
    lines.emplace_back(text);
  }
  std::vector<std::string> lines;
};

// What the log is told, and what share_prefix: true is refused for.
std::pair<std::string, std::string> reasons(const Settings& settings, const char* adapter = nullptr) {
  test::SftRun run = test::tiny_run({}, {0, 3});
  if (adapter != nullptr) {
    const config::LoraConfig lora =
        config::read_lora_config(base::parse_json(adapter, "test"), "test", Status::format);
    run.model().train_only(run.model().adapters().add("default", lora, at::kFloat));
  }
  Lines log;
  auto arguments = config::training_arguments(test::tiny_config(settings));
  const bool shares = sharing_of(arguments, run.model(), {}, &log).has_value();
  EXPECT_EQ(shares, log.lines.empty());
  arguments.share_prefix = config::SharePrefix::always;
  const std::string refused = test::error_of([&] { sharing_of(arguments, run.model(), {}, nullptr); }).second;
  EXPECT_LE(log.lines.size(), 1u);
  return {log.lines.empty() ? "" : log.lines[0], refused};
}

TEST(Sharing, SaysWhyNothingIsShared) {
  TRL_NEED_TINY_RUN();
  EXPECT_EQ(reasons({}), std::pair(std::string(), std::string()));
  EXPECT_EQ(reasons({{"share_prefix", "true"}}, kLora), std::pair(std::string(), std::string()));
  constexpr const char* kDropping = R"({"r": 4, "lora_dropout": 0.1, "target_modules": "all-linear"})";
  const auto expect = [](const std::pair<std::string, std::string>& got, const std::string& why) {
    EXPECT_EQ(got.first, "share_prefix: rows that begin alike share nothing, because " + why);
    EXPECT_EQ(got.second, "share_prefix: true is refused, because " + why +
                              ": give share_prefix: auto, which shares nothing then");
  };
  expect(reasons({}, kDropping), "dropout is active, which each row draws for itself");
  expect(reasons({{"neftune_noise_alpha", "5"}}),
         "neftune_noise_alpha adds noise, which each row draws for itself");
  expect(reasons({{"use_peft", "true"}, {"cache_frozen_layers", TRL_BINARY_DIR}}, kLora),
         "cache_frozen_layers keeps rows by themselves");
  expect(reasons({{"generation_exact", "true"}}),
         "generation_exact gives a row the sums of its own generation");
  EXPECT_EQ(reasons({{"method", "dpo"}}, kDropping).first, "");  // disable_dropout
}

TEST(Sharing, IsWhereItSavesEnough) {
  TRL_NEED_TINY_RUN();
  test::SftRun run = test::tiny_run({}, {0, 3});
  const auto limits = [&](const Settings& settings) {
    return sharing_of(config::training_arguments(test::tiny_config(settings)), run.model(), {}, nullptr);
  };
  EXPECT_FALSE(limits({{"share_prefix", "false"}}));
  EXPECT_EQ(limits({})->least, 16);
  EXPECT_EQ(limits({})->share, 1.0 / 16);
  EXPECT_EQ(limits({})->most, INT64_MAX);
  EXPECT_EQ(limits({{"share_prefix", "true"}, {"max_tokens_per_pass", "100"}})->least, 1);
  EXPECT_EQ(limits({{"max_tokens_per_pass", "100"}})->most, 100);
}

}  // namespace
}  // namespace trl::train::sharing_test
