// Saving: what lies in the directory, and that a disk that fills up leaves the old one whole.
#include <sys/resource.h>
#include <csignal>
#include <map>

#include "engine/run.h"

namespace {

using host::Error;
using host::files_of;
using host::Json;

#define NEED_MODEL() NEED_GOLDEN("models/qwen2/model.safetensors")

struct SavedRun {
  host::Scratch scratch;
  host::Dataset rows = host::open_rows(host::golden("data/datasets/train_lm.jsonl"));
  host::Trainer trainer = host::trainer(host::tiny(scratch / "out"), rows.get());
};

// No file may grow beyond so many bytes while this lives; writing more fails as a full disk does.
class FullDisk {
 public:
  explicit FullDisk(rlim_t bytes) {
    getrlimit(RLIMIT_FSIZE, &before_);
    handler_ = std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limited{bytes, before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limited);
  }
  ~FullDisk() {
    setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }
  FullDisk(const FullDisk&) = delete;
  FullDisk& operator=(const FullDisk&) = delete;

 private:
  rlimit before_{};
  void (*handler_)(int) = nullptr;
};

TEST(Save, HasWhatTransformersReads) {
  NEED_MODEL();
  SavedRun run;
  ASSERT_EQ(trl_trainer_save(run.trainer.get(), nullptr, nullptr, nullptr), TRL_OK);
  const auto out = run.scratch / "out";
  for (const char* name : {"config.json", "generation_config.json", "model.safetensors", "tokenizer.json",
                           "tokenizer_config.json", "chat_template.jinja"}) {
    EXPECT_TRUE(std::filesystem::exists(out / name)) << name;
  }
  const Json config = host::parse(host::read_file(out / "config.json"));
  EXPECT_EQ(config["model_type"], "qwen2");
  host::open_model(out.string());
}

TEST(Save, UntrainedWeightsAreUnchanged) {
  NEED_MODEL();
  SavedRun run;
  ASSERT_EQ(trl_trainer_save(run.trainer.get(), nullptr, nullptr, nullptr), TRL_OK);
  const auto got = host::read_safetensors(run.scratch / "out" / "model.safetensors");
  const auto want = host::read_safetensors(host::golden("models/qwen2/model.safetensors"));
  ASSERT_EQ(got.size(), want.size());
  for (const auto& [name, tensor] : want) EXPECT_EQ(got.at(name).values, tensor.values) << name;
}

TEST(Save, AFullDiskLeavesTheOldDirectoryWhole) {
  NEED_MODEL();
  SavedRun run;
  const auto out = run.scratch / "saved";
  Error error;
  ASSERT_EQ(trl_trainer_save(run.trainer.get(), out.c_str(), nullptr, error), TRL_OK) << error.message();
  const auto before = files_of(run.scratch / "");
  ASSERT_EQ(trl_trainer_step(run.trainer.get(), nullptr, error), TRL_OK);
  int failures = 0;
  for (const rlim_t bytes : {rlim_t{0}, rlim_t{1000}, rlim_t{50000}, rlim_t{200000}}) {
    const FullDisk full(bytes);
    if (trl_trainer_save(run.trainer.get(), out.c_str(), nullptr, error) == TRL_OK) continue;
    ++failures;
    EXPECT_EQ(trl_error_code(error.get()), TRL_E_IO) << error.message();
    EXPECT_TRUE(error.names("saved")) << error.message();
  }
  EXPECT_GE(failures, 3);
  EXPECT_EQ(files_of(run.scratch / ""), before);
  ASSERT_EQ(trl_trainer_save(run.trainer.get(), out.c_str(), nullptr, error), TRL_OK) << error.message();
  EXPECT_NE(files_of(out).at("model.safetensors"), before.at("saved/model.safetensors"));
}

TEST(Save, AnUnwritablePlaceIsNamed) {
  NEED_MODEL();
  SavedRun run;
  host::write_file(run.scratch / "file", "x");
  Error error;
  EXPECT_EQ(trl_trainer_save(run.trainer.get(), (run.scratch / "file" / "under").c_str(), nullptr, error),
            TRL_E_IO);
  EXPECT_TRUE(error.names("file")) << error.message();
}

}  // namespace
