// When a run saves, what it keeps, which is the best, and what a resume notices.
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include "checkpoint/directory.h"
#include "io/temporary_file.h"
#include "support/warnings.h"
#include "tensor/threads/parallel.h"
#include "train/tiny_run.h"

namespace trl::train {
namespace {

using test::Settings;
using test::TemporaryDirectory;
using test::Warnings;
using Names = std::vector<std::string>;

auto options_of(const Settings& settings) {
  const config::Config config = test::tiny_config(settings);
  return config::result_options(config, config::training_arguments(config));
}

struct SavingRun {
  SavingRun(const std::string& output, Settings settings, test::Rows rows = {0, 63},
            std::optional<test::Rows> eval_rows = {})
      : sft(test::tiny_run(with(std::move(settings), output), rows, eval_rows)) {
    sft.setup.log = &log;
    sft.setup.options = options_of({});
  }
  static Settings with(Settings settings, const std::string& output) {
    settings.insert(settings.begin(), {"save_strategy", "steps"});
    settings.push_back({"output_dir", output.c_str()});
    return settings;
  }
  Trainer& train() {
    Trainer& trainer = sft.start();
    trainer.resume_as_configured();
    while (trainer.step()) {
    }
    trainer.finish();
    return trainer;
  }
  Warnings log;
  test::SftRun sft;
};

class Saving : public testing::Test {
 protected:
  void SetUp() override { TRL_NEED_TINY_RUN(); }
  std::string out() const { return directory_.file("out"); }
  Names checkpoints() const {
    Names names;
    for (const std::string& name : base::list_directory(out()))
      if (name.starts_with("checkpoint-")) names.push_back(name);
    return names;
  }

 private:
  const TemporaryDirectory directory_ = TemporaryDirectory::in_memory();
};

TEST_F(Saving, WeightsInFilesOfAtMostMaxShardSize) {
  const auto shards = [](const std::string& directory) {
    int count = 0;
    for (const std::string& name : base::list_directory(directory)) {
      if (!name.starts_with("model-")) continue;
      ++count;
      int64_t bytes = 0;
      const io::Safetensors file(base::join_path(directory, name));
      for (const auto& [tensor, view] : file.tensors()) bytes += static_cast<int64_t>(view.bytes);
      EXPECT_TRUE(bytes <= 100'000 || file.tensors().size() == 1) << name << " " << bytes;
    }
    return count;
  };
  SavingRun run(out(), {{"max_steps", "1"}, {"max_shard_size", "100KB"}});
  Trainer& trainer = run.train();
  trainer.save_model();
  EXPECT_GE(shards(out()), 3);
  EXPECT_EQ(shards(base::join_path(out(), "checkpoint-1")), shards(out()));
  EXPECT_FALSE(base::file_exists(base::join_path(out(), "model.safetensors")));
  const auto model = model::Model::open(out(), "float32");
  const std::vector<at::Tensor> weights = run.sft.weights();
  for (size_t i = 0; i < weights.size(); ++i)
    EXPECT_TRUE(at::equal(weights[i], *model->parameters()[i]->read()));
  SavingRun resumed(out(), {{"max_steps", "2"}, {"resume_from_checkpoint", "true"}});
  EXPECT_EQ(resumed.train().state().global_step, 2);
}

TEST_F(Saving, Strategies) {
  const std::pair<Settings, Names> cases[] = {
      {{{"save_steps", "2"}}, {"checkpoint-2", "checkpoint-4", "checkpoint-5"}},
      {{{"save_steps", "0.5"}}, {"checkpoint-3", "checkpoint-5"}},
      {{}, {"checkpoint-5"}},
      {{{"save_strategy", "epoch"}}, {"checkpoint-2", "checkpoint-4", "checkpoint-5"}},
      {{{"save_strategy", "no"}}, {}},
      {{{"save_steps", "1"}, {"save_total_limit", "2"}}, {"checkpoint-4", "checkpoint-5"}},
  };
  for (const auto& [settings, want] : cases) {
    Settings all = settings;
    all.push_back({"max_steps", "5"});
    SavingRun run(out(), all, {0, 7});
    run.train();
    EXPECT_EQ(checkpoints(), want);
    base::remove_tree(out());
  }
}

int64_t size_of(const std::string& directory, const std::string& file) {
  return static_cast<int64_t>(std::filesystem::file_size(base::join_path(directory, file)));
}

// What is asked of the disk before the first step is what the files are, except for their headers.
TEST_F(Saving, TheDisksNeedsAreTheSizesOfTheFiles) {
  constexpr int64_t kHeader = 16 * 1024;
  const auto near = [](int64_t needed, int64_t found) {
    EXPECT_LE(needed, found);
    EXPECT_GE(needed, found - kHeader);
  };
  const Settings cases[] = {{},
                            {{"save_only_model", "true"}},
                            {{"optim", "adafactor"}},
                            {{"optim", "paged_adamw_8bit"}, {"offload_dir", TRL_BINARY_DIR}}};
  for (Settings settings : cases) {
    settings.emplace_back("max_steps", "1");
    SavingRun run(out(), settings, {0, 7});
    Trainer& trainer = run.train();
    const DiskNeeds needs = trainer.disk_needs();
    EXPECT_EQ(needs.checkpoints, 0);  // all are made
    trainer.save_model();
    near(needs.model_bytes, size_of(out(), "model.safetensors"));
    const std::string saved = base::join_path(out(), "checkpoint-1");
    const bool whole = base::file_exists(base::join_path(saved, "optimizer.safetensors"));
    near(needs.checkpoint_bytes,
         size_of(saved, "model.safetensors") + (whole ? size_of(saved, "optimizer.safetensors") : 0));
    EXPECT_EQ(needs.state_bytes > 0, run.sft.setup.arguments.optim_directory.size() > 0);
    base::remove_tree(out());
  }
  for (const char* const type : {"auto", "q8_0"}) {
    SavingRun run(out(), {{"max_steps", "1"}, {"save_format", "gguf"}, {"save_gguf_type", type}}, {0, 7});
    Trainer& trainer = run.train();
    trainer.save_model();
    near(trainer.disk_needs().model_bytes, size_of(out(), "model.gguf"));
    base::remove_tree(out());
  }
}

base::Json state_of(const std::string& directory) {
  return base::read_json_file(directory + "/trainer_state.json");
}

double eval_loss(const base::Json& state, int64_t step) {
  for (const base::Json& record : state["log_history"])
    if (record["step"] == step && record.contains("eval_loss")) return record["eval_loss"];
  return 0;
}

TEST_F(Saving, TheBestIsKeptAndLoaded) {
  // A learning rate that soon makes it worse: the best evaluation is not the last.
  const Settings settings = {{"max_steps", "5"},
                             {"save_steps", "1"},
                             {"eval_strategy", "steps"},
                             {"eval_steps", "1"},
                             {"learning_rate", "0.05"},
                             {"save_total_limit", "2"},
                             {"load_best_model_at_end", "true"},
                             {"lr_scheduler_type", "constant"}};
  SavingRun run(out(), settings, {0, 19}, test::Rows{20, 30});
  const Trainer& trainer = run.train();
  const base::Json state = state_of(out());
  const int64_t best = state["best_global_step"];
  double least = 1e9;
  for (int64_t step = 1; step <= 5; ++step) least = std::min(least, eval_loss(state, step));
  EXPECT_EQ(eval_loss(state, best), least);
  EXPECT_EQ(state["best_metric"], least);
  EXPECT_LT(best, 5);
  const std::string name = checkpoint::checkpoint_name(best);
  EXPECT_EQ(state["best_model_checkpoint"], out() + "/" + name);
  EXPECT_EQ(checkpoints().size(), 2u);
  EXPECT_TRUE(base::file_exists(out() + "/" + name));
  EXPECT_EQ(trainer.state().best_global_step, best);
  const auto weights = run.sft.weights();
  const auto model = model::Model::open(out() + "/" + name, "float32");
  for (size_t i = 0; i < weights.size(); ++i)
    EXPECT_TRUE(at::equal(weights[i], *model->parameters()[i]->read()));
}

TEST_F(Saving, WhenItIsTheBestSoFar) {
  const Settings settings = {{"max_steps", "5"},
                             {"save_strategy", "best"},
                             {"metric_for_best_model", "loss"},
                             {"eval_strategy", "steps"},
                             {"eval_steps", "1"},
                             {"learning_rate", "0.05"},
                             {"lr_scheduler_type", "constant"}};
  SavingRun run(out(), settings, {0, 19}, test::Rows{20, 30});
  run.train();
  const base::Json state = state_of(out());
  Names want;
  double best = 1e9;
  for (int64_t step = 1; step <= 5; ++step) {
    if (eval_loss(state, step) >= best) continue;
    best = eval_loss(state, step);
    want.push_back(checkpoint::checkpoint_name(step));
  }
  EXPECT_LT(want.size(), 5u);
  EXPECT_EQ(checkpoints(), want);
  EXPECT_EQ(state["best_model_checkpoint"], out() + "/" + want.back());
}

TEST_F(Saving, AMetricThatIsNotThereIsNamed) {
  SavingRun run(out(), {{"max_steps", "2"}, {"eval_strategy", "steps"}, {"metric_for_best_model", "bleu"}},
                {0, 19}, test::Rows{20, 21});
  Trainer& trainer = run.sft.start();
  try {
    while (trainer.step()) {
    }
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.key(), "metric_for_best_model");
    EXPECT_NE(error.message().find("eval_loss"), std::string::npos) << error.message();
  }
}

TEST_F(Saving, AnotherRunsCheckpointsStopItBeforeTheFirstStep) {
  SavingRun(out(), {{"max_steps", "2"}, {"save_steps", "1"}}).train();
  SavingRun again(out(), {{"max_steps", "2"}});
  Trainer& trainer = again.sft.start();
  try {
    trainer.step();
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), Status::io);
    EXPECT_NE(error.message().find(out() + "/checkpoint-1"), std::string::npos) << error.message();
  }
  EXPECT_EQ(trainer.state().global_step, 0);
  SavingRun without(out(), {{"max_steps", "2"}, {"save_strategy", "no"}});
  without.train();
  EXPECT_EQ(checkpoints(), (Names{"checkpoint-1", "checkpoint-2"}));
}

TEST_F(Saving, ANewOutputDirectoryIsLockedFromTheFirstStep) {
  SavingRun run(out(), {});
  Trainer& trainer = run.sft.start();
  EXPECT_FALSE(base::is_directory(out()));
  ASSERT_TRUE(trainer.step());
  const int other = ::open(out().c_str(), O_RDONLY | O_DIRECTORY);
  ASSERT_GE(other, 0);
  EXPECT_NE(::flock(other, LOCK_EX | LOCK_NB), 0);
  ::close(other);
}

TEST_F(Saving, TrueAndAutoTakeTheNewestGoodOne) {
  SavingRun nothing(out(), {{"max_steps", "2"}, {"resume_from_checkpoint", "true"}});
  EXPECT_THROW(nothing.train(), Error);
  SavingRun first(out(), {{"max_steps", "4"}, {"save_steps", "1"}, {"resume_from_checkpoint", "auto"}});
  first.train();
  for (const char* how : {"true", "auto"}) {
    base::write_file(out() + "/checkpoint-4/model.safetensors", "cut");
    SavingRun run(out(), {{"max_steps", "4"}, {"save_steps", "1"}, {"resume_from_checkpoint", how}});
    run.train();
    ASSERT_EQ(run.log.lines.size(), 1u);
    EXPECT_NE(run.log.lines[0].find("checkpoint-4/model.safetensors"), std::string::npos);
    EXPECT_EQ(run.sft.train_stream().order.size(), 1u);                // only step 4 was done again
    EXPECT_NO_THROW(checkpoint::Checkpoint(out() + "/checkpoint-4"));  // the damaged one was replaced
  }
  // None is good: auto begins anew, and may replace what this directory's run wrote.
  for (const std::string& name : checkpoints()) base::write_file(out() + "/" + name + "/config.json", "cut");
  SavingRun anew(out(), {{"max_steps", "4"}, {"save_steps", "1"}, {"resume_from_checkpoint", "auto"}});
  anew.train();
  EXPECT_EQ(anew.log.lines.size(), 4u);
  EXPECT_EQ(anew.sft.train_stream().order.size(), 4u);
}

TEST_F(Saving, ChangedOptionsAreWarnings) {
  SavingRun(out(), {{"max_steps", "2"}}, {0, 62}).train();
  const std::string from = out() + "/checkpoint-2";
  const auto resumed = [&](const Settings& changed, test::Rows rows) {
    Settings settings = {{"max_steps", "2"}, {"resume_from_checkpoint", from.c_str()}};
    SavingRun run(out(), settings, rows);
    Settings all = changed;
    run.sft.setup.options = options_of(all);
    run.sft.start().resume_as_configured();
    return run.log.lines;
  };
  EXPECT_EQ(resumed({}, {0, 62}), Names{});
  EXPECT_EQ(
      resumed({{"seed", "7"}, {"per_device_train_batch_size", "2"}}, {0, 62}),
      (Names{"per_device_train_batch_size is 2, the checkpoint was made with 4: the run will differ from the "
             "one that was interrupted",
             "seed is 7, the checkpoint was made with 42: the run will differ from the one that was "
             "interrupted"}));
  Names shape = resumed({{"packing", "true"}, {"max_length", "32"}, {"dataset_streaming", "true"}}, {0, 62});
  ASSERT_EQ(shape.size(), 3u);
  std::sort(shape.begin(), shape.end());
  EXPECT_TRUE(shape[0].starts_with("dataset_streaming is true, the checkpoint was made with false"));
  EXPECT_TRUE(shape[1].starts_with("max_length is 32, the checkpoint was made with 1024"));
  EXPECT_TRUE(shape[2].starts_with("packing is true, the checkpoint was made with false"));
  const int before = tensor::threads();
  tensor::set_threads(before + 1);
  EXPECT_EQ(
      resumed({}, {0, 62}),
      Names{fmt::format("runtime.threads is {}, the checkpoint was made with {}: the run will differ from "
                        "the one that was interrupted",
                        before + 1, before)});
  tensor::set_threads(before);
  EXPECT_EQ(resumed({}, {0, 61}), Names{"the training dataset has 62 rows, the checkpoint was made with 63: "
                                        "the run will differ from the one that "
                                        "was interrupted"});
  EXPECT_EQ(resumed({}, {1, 63}),
            Names{"the content of the training dataset is not what the checkpoint was made "
                  "with: the run will differ from the one that was interrupted"});
}

// States of another optimizer are left behind, and it is said.
TEST_F(Saving, AnotherOptimizerBeginsAnew) {
  const Settings old = {{"max_steps", "2"}, {"optim", "rmsprop"}};
  SavingRun first(out(), old);
  first.sft.setup.options = options_of(old);
  first.train();
  const std::string from = out() + "/checkpoint-2";
  const Settings changed = {
      {"max_steps", "3"}, {"optim", "adamw_torch"}, {"resume_from_checkpoint", from.c_str()}};
  SavingRun other(out(), changed);
  other.sft.setup.options = options_of(changed);
  EXPECT_EQ(other.train().state().global_step, 3);
  const std::string anew = fmt::format(
      "the optimizer starts anew: its states in {} belong to optim rmsprop, optim_args null", from);
  EXPECT_EQ(std::count(other.log.lines.begin(), other.log.lines.end(), anew), 1);
}

// Whether states lie in a file is not a part of what they are; whether those of embeddings have 8 bits is.
TEST_F(Saving, FormsOfAnOptimizerThatAreOneAndThatAreNot) {
  const Settings old = {{"max_steps", "2"}, {"optim", "paged_adamw_8bit"}, {"offload_dir", TRL_BINARY_DIR}};
  SavingRun first(out(), old);
  first.sft.setup.options = options_of(old);
  first.train();
  const std::string from = out() + "/checkpoint-2";
  const auto warnings = [&](Settings changed) {
    changed.push_back({"max_steps", "3"});
    changed.push_back({"resume_from_checkpoint", from.c_str()});
    SavingRun other(out(), changed);
    other.sft.setup.options = options_of(changed);
    EXPECT_EQ(other.train().state().global_step, 3);
    return std::count_if(other.log.lines.begin(), other.log.lines.end(), [](const std::string& line) {
      return line.starts_with("the optimizer starts anew");
    });
  };
  EXPECT_EQ(warnings({{"optim", "adamw_bnb_8bit"}}), 0);
  EXPECT_EQ(warnings({{"optim", "adamw_8bit"}, {"optim_8bit_embeddings", "true"}}), 1);
  EXPECT_EQ(warnings({{"optim", "lion_8bit"}}), 1);
}

// As Trainer: more epochs go on, another batch size counts the position from the steps.
TEST_F(Saving, GoesOnWithOtherOptions) {
  SavingRun(out(), {{"num_train_epochs", "1"}}, {0, 7}).train();
  SavingRun more(out(), {{"num_train_epochs", "2"}, {"resume_from_checkpoint", "true"}}, {0, 7});
  EXPECT_EQ(more.train().state().global_step, 4);
  EXPECT_EQ(more.sft.train_stream().order, (std::vector<std::vector<int64_t>>{{0, 1, 2, 3}, {4, 5, 6, 7}}));
  SavingRun smaller(
      out(), {{"max_steps", "5"}, {"per_device_train_batch_size", "2"}, {"resume_from_checkpoint", "true"}},
      {0, 9});
  EXPECT_EQ(smaller.train().state().global_step, 5);
  EXPECT_EQ(smaller.sft.train_stream().order, (std::vector<std::vector<int64_t>>{{8, 9}}));
}

TEST_F(Saving, IgnoreDataSkip) {
  SavingRun(out(), {{"max_steps", "3"}}, {0, 7}).train();
  SavingRun again(
      out(), {{"max_steps", "4"}, {"resume_from_checkpoint", "true"}, {"ignore_data_skip", "true"}}, {0, 7});
  again.train();
  EXPECT_EQ(again.sft.train_stream().order, (std::vector<std::vector<int64_t>>{{0, 1, 2, 3}}));
}

// The disk is full at any one write of a run with three saves: that checkpoint is left out with a warning,
// and nothing else is lost.
TEST_F(Saving, AFaultInARunCostsOneCheckpoint) {
  SavingRun whole(out(), {{"max_steps", "3"}, {"save_steps", "1"}});
  whole.train();
  const auto want = whole.sft.weights();
  for (const int nth : {0, 1, 60, 150, 151, 152, 153, 200, 320, 400}) {
    base::remove_tree(out());
    int count = 0;
    const base::WriteFault fault = [&](const std::string& file, size_t) {
      if (count++ == nth) fail(Status::io, "{}: No space left on device", file);
    };
    SavingRun run(out(), {{"max_steps", "3"}, {"save_steps", "1"}});
    run.sft.setup.write_fault = &fault;
    Trainer& trainer = run.sft.start();
    Names whole_ones;
    for (bool more = true; more;) {
      const int before = count;
      more = trainer.step();
      const bool cut = before <= nth && nth < count;
      const std::string name = fmt::format("checkpoint-{}", trainer.state().global_step);
      if (count > before && !cut) whole_ones.push_back(name);
    }
    trainer.finish();
    const auto left_out =
        std::count_if(run.log.lines.begin(), run.log.lines.end(), [](const std::string& line) {
          return line.find("was not saved, and training continues") != std::string::npos;
        });
    EXPECT_EQ(left_out, nth < count ? 1 : 0);
    EXPECT_EQ(whole_ones.size(), static_cast<size_t>(3 - left_out));
    EXPECT_EQ(checkpoints(), whole_ones);
    for (const std::string& name : checkpoints()) EXPECT_NO_THROW(checkpoint::Checkpoint(out() + "/" + name));
    const auto got = run.sft.weights();
    for (size_t i = 0; i < want.size(); ++i) EXPECT_TRUE(at::equal(got[i], want[i]));
  }
}

TEST_F(Saving, AFolderThatVanishesIsMadeAgain) {
  SavingRun run(out(), {{"max_steps", "2"}, {"save_steps", "1"}});
  Trainer& trainer = run.sft.start();
  ASSERT_TRUE(trainer.step());
  base::remove_tree(out());
  ASSERT_TRUE(trainer.step());
  EXPECT_EQ(checkpoints(), Names{"checkpoint-2"});
}

TEST_F(Saving, ByHand) {
  SavingRun run(out(), {{"max_steps", "4"}, {"save_strategy", "no"}});
  Trainer& trainer = run.sft.start();
  ASSERT_TRUE(trainer.step());
  trainer.save_checkpoint();
  EXPECT_EQ(base::list_directory(out()), (Names{"checkpoint-1", "trainer_state.json"}));
  trainer.save_checkpoint(out() + "/mine");
  EXPECT_EQ(checkpoint::Checkpoint(out() + "/mine").run(),
            checkpoint::Checkpoint(out() + "/checkpoint-1").run());
}

}  // namespace
}  // namespace trl::train
