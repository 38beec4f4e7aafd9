// A checkpoint is there whole or not at all, and a damaged one is refused by the name of its file.
#include "checkpoint/checkpoint.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/error.h"
#include "checkpoint/directory.h"
#include "checkpoint/save.h"
#include "io/temporary_file.h"
#include "support/error_of.h"
#include "support/golden.h"
#include "support/interrupts.h"
#include "support/warnings.h"

namespace trl::checkpoint {
namespace {

using base::Json;
using test::TemporaryDirectory;
using Names = std::vector<std::string>;

std::map<std::string, std::string> bytes_of(const std::string& path) {
  std::map<std::string, std::string> files;
  for (const std::string& name : base::list_directory(path))
    files[name] = base::read_file(base::join_path(path, name));
  return files;
}

void overwrite(const std::string& path, std::string_view bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

const std::vector<engine::NamedBytes> kFiles = {{"tokenizer.json", "{}"}};

struct Example {
  explicit Example(std::string run = "aaaa") {
    contents.run = std::move(run);
    contents.model = model.get();
    contents.files = kFiles;
    contents.trainer_state = "{}\n";
    contents.state = {{"x", 1}};
    for (tensor::Parameter* parameter : model->parameters())
      contents.optimizer.push_back({parameter->name + ".exp_avg", at::rand_like(*parameter->read())});
  }
  std::unique_ptr<model::Model> model = model::Model::open(test::golden_path("models/llama"), "float32");
  Contents contents;
};

// In memory: some of these tests save a thousand times.
class Checkpoints : public testing::Test {
 protected:
  void SetUp() override { TRL_NEED_GOLDEN("models/llama/config.json"); }
  std::string path(std::string_view name) const { return directory_.file(name); }
  const std::string& root() const { return directory_.path(); }
  std::string refusal(const std::string& name) const {
    try {
      const Checkpoint opened(path(name));
      opened.state();
    } catch (const Error& error) {
      EXPECT_EQ(error.status(), Status::format) << error.message();
      return error.message();
    }
    return "taken";
  }

 private:
  const TemporaryDirectory directory_ = TemporaryDirectory::in_memory();
};

TEST_F(Checkpoints, LoadsWhatWasSaved) {
  Example example;
  save_checkpoint(path("checkpoint-3"), example.contents);
  EXPECT_EQ(base::list_directory(root()), Names{"checkpoint-3"});
  EXPECT_EQ(base::list_directory(path("checkpoint-3")),
            (Names{"checksums.json", "config.json", "generation_config.json", "model.safetensors",
                   "optimizer.safetensors", "tokenizer.json", "trainer_state.json", "trl_state.json"}));
  const Checkpoint opened(path("checkpoint-3"));
  EXPECT_EQ(opened.run(), "aaaa");
  EXPECT_EQ(opened.state()["x"], 1);
  EXPECT_EQ(opened.state()["format"], 1);
  EXPECT_EQ(opened.trainer_state(), "{}\n");
  Example other;
  std::vector<at::Tensor> want;
  for (const optim::StateTensor& part : example.contents.optimizer) want.push_back(part.value.clone());
  for (tensor::Parameter* parameter : other.model->parameters()) parameter->write()->zero_();
  opened.load(*other.model, other.contents.optimizer);
  for (size_t i = 0; i < want.size(); ++i) {
    EXPECT_TRUE(at::equal(other.contents.optimizer[i].value, want[i]));
    EXPECT_TRUE(at::equal(*other.model->parameters()[i]->read(), *example.model->parameters()[i]->read()));
  }
  EXPECT_EQ(model::Model::open(path("checkpoint-3"), "auto")->parameters().size(), want.size());
}

TEST_F(Checkpoints, OfTheModelAloneCannotBeResumed) {
  Example example;
  example.contents.resumable = false;
  save_checkpoint(path("checkpoint-3"), example.contents);
  EXPECT_EQ(base::list_directory(path("checkpoint-3")),
            (Names{"checksums.json", "config.json", "generation_config.json", "model.safetensors",
                   "tokenizer.json", "trainer_state.json"}));
  EXPECT_NE(refusal("checkpoint-3").find("save_only_model"), std::string::npos);
}

TEST_F(Checkpoints, ADamagedFileIsNamed) {
  Example example;
  save_checkpoint(path("good"), example.contents);
  const auto good = bytes_of(path("good"));
  save_checkpoint(path("bad"), example.contents);
  for (const auto& [name, bytes] : good) {
    SCOPED_TRACE(name);
    const std::string file = path("bad/" + name);
    for (const size_t at : {size_t{0}, bytes.size() / 2, bytes.size() - 1}) {
      std::string flipped = bytes;
      flipped[at] = static_cast<char>(flipped[at] ^ 0x10);
      overwrite(file, flipped);
      if (name == "checksums.json" && at == bytes.size() - 1)
        continue;  // the newline, not JSON any more or still
      const std::string why = refusal("bad");
      // A byte of the list itself may make another file's entry wrong.
      EXPECT_NE(why.find(name == "checksums.json" ? path("bad/") : file), std::string::npos) << why;
    }
    overwrite(file, std::string_view(bytes).substr(0, bytes.size() / 2));
    EXPECT_NE(refusal("bad").find(file), std::string::npos);
    base::remove_tree(file);
    EXPECT_NE(refusal("bad").find(name), std::string::npos);
    overwrite(file, bytes);
    EXPECT_EQ(refusal("bad"), "taken");
  }
  // Still JSON, and the name of a run that there never was.
  std::string renamed = good.at("checksums.json");
  const size_t letter = renamed.find("\"run\": \"") + 8;
  renamed[letter] = renamed[letter] == 'a' ? 'b' : 'a';
  overwrite(path("bad/checksums.json"), renamed);
  EXPECT_NE(refusal("bad").find("checksums.json: the checkpoint is damaged"), std::string::npos);
}

TEST_F(Checkpoints, OneOfAnotherShapeTouchesNothing) {
  Example example;
  save_checkpoint(path("checkpoint-1"), example.contents);
  const Checkpoint opened(path("checkpoint-1"));
  Example other;
  other.contents.optimizer.back().value = at::zeros({3});
  const at::Tensor before = other.model->parameters()[0]->write()->zero_().clone();
  try {
    opened.load(*other.model, other.contents.optimizer);
    FAIL() << "loaded";
  } catch (const Error& error) {
    EXPECT_NE(error.message().find(other.contents.optimizer.back().name), std::string::npos)
        << error.message();
  }
  EXPECT_TRUE(at::equal(*other.model->parameters()[0]->read(), before));
  const auto narrow = model::Model::open(test::golden_path("models/llama"), "bfloat16");
  EXPECT_THROW(opened.load_model(*narrow), Error);
}

// Every write and every rename, into a new place and over an earlier checkpoint.
TEST_F(Checkpoints, AFaultAnywhereLeavesWhatWasThere) {
  Example example;
  for (const bool replaces : {false, true}) {
    SCOPED_TRACE(replaces);
    if (replaces) save_checkpoint(path("checkpoint-3"), example.contents);
    const Names names = base::list_directory(root());
    const auto before = replaces ? bytes_of(path("checkpoint-3")) : std::map<std::string, std::string>();
    example.model->parameters()[0]->write()->add_(1);
    int writes = 0, renames = 0;
    bool done = false;
    for (int nth = 0; !done; ++nth) {
      writes = renames = 0;
      const base::WriteFault fault = [&](const std::string& file, size_t bytes) {
        if (writes + renames == nth) fail(Status::io, "{}: No space left on device", file);
        ++(bytes == 0 ? renames : writes);
      };
      try {
        save_checkpoint(path("checkpoint-3"), example.contents, &fault);
        done = true;
      } catch (const Error& error) {
        EXPECT_EQ(error.status(), Status::io);
        ASSERT_EQ(base::list_directory(root()), names) << nth;
        if (replaces) {
          ASSERT_EQ(bytes_of(path("checkpoint-3")), before) << nth;
        }
      }
    }
    EXPECT_GT(writes, 20);
    EXPECT_EQ(renames, 1);
    EXPECT_EQ(base::list_directory(root()), Names{"checkpoint-3"});
    Example loaded;
    Checkpoint(path("checkpoint-3")).load_model(*loaded.model);
    EXPECT_TRUE(at::equal(*loaded.model->parameters()[0]->read(), *example.model->parameters()[0]->read()));
    base::remove_tree(path("checkpoint-3"));
  }
}

TEST_F(Checkpoints, WhatIsNotOursIsNeitherReplacedNorRemoved) {
  Example example("aaaa"), other("bbbb");
  save_checkpoint(path("checkpoint-1"), other.contents);
  base::make_directories(path("checkpoint-2"));
  overwrite(path("checkpoint-2/model.safetensors"), "not ours");
  const auto before = bytes_of(path("checkpoint-1"));
  EXPECT_THROW(save_checkpoint(path("checkpoint-1"), example.contents), Error);
  EXPECT_THROW(save_checkpoint(path("checkpoint-2"), example.contents), Error);
  EXPECT_THROW(prepare_directory(root(), "aaaa", Others::refuse), Error);
  EXPECT_NO_THROW(prepare_directory(root(), "aaaa", Others::keep));
  save_checkpoint(path("checkpoint-3"), example.contents);
  save_checkpoint(path("checkpoint-4"), example.contents);
  rotate(root(), "aaaa", 1, "");
  EXPECT_EQ(base::list_directory(root()), (Names{"checkpoint-1", "checkpoint-2", "checkpoint-4"}));
  EXPECT_EQ(bytes_of(path("checkpoint-1")), before);
  EXPECT_THROW(prepare_directory(root(), "cccc", Others::remove), Error);  // checkpoint-2 is not ours
  EXPECT_EQ(base::list_directory(root()), (Names{"checkpoint-1", "checkpoint-2", "checkpoint-4"}));
  base::remove_tree(path("checkpoint-2"));
  prepare_directory(root(), "aaaa", Others::remove);
  EXPECT_EQ(base::list_directory(root()), (Names{"checkpoint-4"}));
}

TEST_F(Checkpoints, OneThatLostItsListOfFilesIsDamagedAndStandsInNobodysWay) {
  Example example("aaaa");
  base::NullLog log;
  for (const bool empty : {false, true}) {
    for (const int step : {3, 6}) save_checkpoint(path(checkpoint_name(step)), example.contents);
    base::remove_tree(path("checkpoint-6/checksums.json"));
    if (empty) {
      base::remove_tree(path("checkpoint-6"));
      base::make_directories(path("checkpoint-6"));
    }
    EXPECT_EQ(newest_good(root(), log)->directory(), path("checkpoint-3"));
    EXPECT_NO_THROW(prepare_directory(root(), "aaaa", Others::refuse));
    save_checkpoint(path("checkpoint-6"), example.contents);
    EXPECT_EQ(newest_good(root(), log)->directory(), path("checkpoint-6"));
  }
}

TEST_F(Checkpoints, NoModelIsSavedOverOne) {
  Example example("aaaa");
  save_checkpoint(path("checkpoint-1"), example.contents);
  const auto before = bytes_of(path("checkpoint-1"));
  EXPECT_EQ(test::error_of([&] { save_model(path("checkpoint-1"), *example.model, kFiles); }).second,
            path("checkpoint-1") +
                " is a checkpoint, and saving a model into it would break it: give another directory");
  EXPECT_THROW(prepare_directory(path("checkpoint-1"), "aaaa", Others::keep), Error);
  EXPECT_EQ(bytes_of(path("checkpoint-1")), before);
}

TEST_F(Checkpoints, ALockIsOfOneProcessAtATime) {
  const int other = ::open(root().c_str(), O_RDONLY | O_DIRECTORY);  // a lock of another descriptor
  ASSERT_EQ(::flock(other, LOCK_EX), 0);
  EXPECT_EQ(test::error_of([&] { lock_directory(root()); }).second,
            "output_dir: another run is writing into " + root() +
                ": wait until it ends, or give another directory");
  ::close(other);
  auto first = lock_directory(root());
  EXPECT_NE(first, nullptr);
  EXPECT_EQ(lock_directory(root()), first);
  EXPECT_EQ(lock_directory(path("nowhere")), nullptr);
  first.reset();
  const int after = ::open(root().c_str(), O_RDONLY | O_DIRECTORY);
  EXPECT_EQ(::flock(after, LOCK_EX | LOCK_NB), 0);
  ::close(after);
}

TEST_F(Checkpoints, RotationKeepsTheNewestAndTheBest) {
  Example example;
  const auto fill = [&] {
    for (const int step : {1, 2, 9, 10, 11}) save_checkpoint(path(checkpoint_name(step)), example.contents);
  };
  fill();
  rotate(root(), "aaaa", 2, "checkpoint-2");
  EXPECT_EQ(base::list_directory(root()), (Names{"checkpoint-11", "checkpoint-2"}));
  fill();
  rotate(root(), "aaaa", 1, "checkpoint-2");
  EXPECT_EQ(base::list_directory(root()), (Names{"checkpoint-11", "checkpoint-2"}));
  rotate(root(), "aaaa", 1, "checkpoint-2", false);
  EXPECT_EQ(base::list_directory(root()), Names{"checkpoint-2"});
  fill();
  rotate(root(), "aaaa", 3, "");
  EXPECT_EQ(base::list_directory(root()), (Names{"checkpoint-10", "checkpoint-11", "checkpoint-9"}));
}

TEST_F(Checkpoints, TheNewestGoodOneIsFound) {
  Example example;
  test::Warnings log;
  EXPECT_FALSE(newest_good(root(), log));
  EXPECT_EQ(newest_run(root()), "");
  for (const int step : {9, 10, 100}) save_checkpoint(path(checkpoint_name(step)), example.contents);
  base::make_directories(path("checkpoint-500x"));
  base::make_directories(path("checkpoint-0500"));
  EXPECT_EQ(newest_good(root(), log)->directory(), path("checkpoint-100"));
  EXPECT_TRUE(log.lines.empty());
  overwrite(path("checkpoint-100/optimizer.safetensors"), "");
  EXPECT_EQ(newest_good(root(), log)->directory(), path("checkpoint-10"));
  ASSERT_EQ(log.lines.size(), 1u);
  EXPECT_NE(log.lines[0].find("checkpoint-100/optimizer.safetensors"), std::string::npos);
  for (const int step : {9, 10}) base::remove_tree(path(checkpoint_name(step)));
  EXPECT_FALSE(newest_good(root(), log));
  EXPECT_EQ(newest_run(root()), "aaaa");
}

TEST_F(Checkpoints, ACancelIsNoDamage) {
  Example example;
  test::Warnings log;
  save_checkpoint(path("checkpoint-9"), example.contents);
  test::Stops stops;
  const base::InterruptScope scope(&stops);
  EXPECT_EQ(test::error_of([&] { newest_good(root(), log); }).first, Status::cancelled);
  EXPECT_TRUE(log.lines.empty());
}

TEST_F(Checkpoints, UnfinishedOnesAreCleared) {
  for (const char* name : {"checkpoint-3.123.tmp", "checkpoint-3.123.old", "checkpoint-3.x.tmp",
                           "notes.123.tmp", "checkpoint-3.tmp"})
    base::make_directories(path(name));
  overwrite(path("trainer_state.json.99.tmp"), "{");
  prepare_directory(root(), "aaaa", Others::refuse);
  EXPECT_EQ(base::list_directory(root()), (Names{"checkpoint-3.tmp", "checkpoint-3.x.tmp", "notes.123.tmp"}));
}

}  // namespace
}  // namespace trl::checkpoint
