// Models, adapters and checkpoints that the host reads and writes (trl_runtime_mount), and those that are
// named by a descriptor.
#include <fcntl.h>
#include <unistd.h>

#include "engine/run.h"
#include "mounted.h"

namespace {

using host::Error;
using host::files_of;
using host::greedy;
using host::Json;
using host::Mounted;
using host::Settings;

#define NEED_MODEL() NEED_GOLDEN("models/qwen2/model.safetensors")

std::string description(const trl_model* model) {
  const char* json = nullptr;
  EXPECT_EQ(trl_model_describe(model, &json, nullptr), TRL_OK);
  return json != nullptr ? json : "";
}

int64_t bytes_of_weights(trl_runtime* runtime) {
  int64_t now = 0;
  EXPECT_EQ(trl_runtime_memory(runtime, "weights", &now, nullptr, nullptr), TRL_OK);
  return now;
}

host::Dataset rows(const char* name = "train_lm.jsonl") {
  return host::open_rows(host::golden(std::string("data/datasets/") + name));
}

Settings of(const std::string& output, const std::string& model, const Settings& more = {}) {
  return host::with(host::with(host::tiny(output),
                               {{"model_name_or_path", model}, {"max_steps", "2"}, {"save_strategy", "no"}}),
                    more);
}

const Settings kMountedLora = {{"use_peft", "true"}, {"lora_r", "4"}, {"lora_dropout", "0"}};

void train(trl_trainer* trainer) {
  Error error;
  ASSERT_EQ(trl_trainer_train(trainer, nullptr, nullptr, error), TRL_OK) << error.message();
}

void save(trl_trainer* trainer, const std::string& path, const std::string& kind = "model") {
  Error error;
  ASSERT_EQ(trl_trainer_save(trainer, path.c_str(), host::config({{"save.kind", kind}}).get(), error), TRL_OK)
      << path << ": " << error.message();
}

// The losses of all steps.
std::vector<double> losses(trl_trainer* trainer) {
  std::vector<double> all;
  const Json state = host::state(trainer);
  for (const Json& entry : state["log_history"])
    if (entry.contains("loss")) all.push_back(entry["loss"].get<double>());
  EXPECT_EQ(all.size(), 2u);
  return all;
}

void expect_same(const std::map<std::string, std::string>& got,
                 const std::map<std::string, std::string>& want) {
  EXPECT_FALSE(want.empty());
  for (const auto& [name, bytes] : want) {
    const auto found = got.find(name);
    ASSERT_NE(found, got.end()) << name;
    EXPECT_TRUE(found->second == bytes) << name;
  }
  EXPECT_EQ(got.size(), want.size());
}

TEST(MountedModel, IsTheDirectorys) {
  NEED_MODEL();
  for (const char* name : {"models/qwen2", "models/qwen2_bf16", "models/llama_sharded"}) {
    SCOPED_TRACE(name);
    NEED_GOLDEN(std::string(name) + "/config.json");
    Mounted files("model");
    files.take(host::golden(name));
    const auto runtime = host::runtime();
    ASSERT_EQ(files.mount(runtime.get()), TRL_OK);
    std::string described;
    std::vector<int32_t> ids;
    int64_t bytes = 0;
    {
      const host::Model want = host::open_model(host::golden(name));
      described = description(want.get());
      ids = greedy(want.get());
      bytes = bytes_of_weights(runtime.get());
    }
    const host::Model got = host::open_model(files.path());
    EXPECT_EQ(description(got.get()), described);
    EXPECT_EQ(greedy(got.get()), ids);
    EXPECT_EQ(bytes_of_weights(runtime.get()), bytes);  // what was read is not kept beside them
    for (const auto& [file, read] : files.bytes_read) {
      const bool has_weights = file.size() > 12 && file.substr(file.size() - 12) == ".safetensors";
      if (has_weights) {
        EXPECT_LE(read, files.get(file).size()) << file;  // once
      }
    }
  }
}

TEST(MountedModel, IsReadFromAGgufFile) {
  NEED_MODEL();
  const host::Scratch scratch;
  Error error;
  ASSERT_EQ(trl_model_convert(nullptr, host::golden("models/qwen2").c_str(), (scratch / "m.gguf").c_str(),
                              nullptr, error),
            TRL_OK)
      << error.message();
  Mounted files("gguf");
  files.put("model.gguf", host::read_file(scratch / "m.gguf"));
  const auto runtime = host::runtime();
  ASSERT_EQ(files.mount(runtime.get()), TRL_OK);
  for (const Settings& options : {Settings{}, Settings{{"dtype", "keep"}}}) {
    const auto want = greedy(host::open_model((scratch / "m.gguf").string(), options).get());
    EXPECT_EQ(greedy(host::open_model(files.path("model.gguf"), options).get()), want);
    EXPECT_EQ(greedy(host::open_model(files.path(), options).get()), want);
  }
  const std::string whole = files.get("model.gguf");
  for (const size_t size : {size_t{3}, size_t{20}, size_t{2000}, whole.size() / 2, whole.size() - 100}) {
    files.put("model.gguf", whole.substr(0, size));
    trl_model* model = nullptr;
    EXPECT_EQ(trl_model_open(nullptr, files.path("model.gguf").c_str(), nullptr, &model, error), TRL_E_FORMAT)
        << size << ": " << error.message();
    EXPECT_TRUE(error.names(files.path("model.gguf"))) << error.message();
  }
}

// As BadModel.TruncatedWeights, for files of a host.
TEST(MountedModel, TruncatedFilesAreRefused) {
  NEED_MODEL();
  Mounted files("cut");
  files.take(host::golden("models/qwen2"));
  const auto runtime = host::runtime();
  ASSERT_EQ(files.mount(runtime.get()), TRL_OK);
  const int64_t before = bytes_of_weights(runtime.get());
  const auto refused = [&](trl_status want, const std::string& file) {
    trl_model* model = nullptr;
    Error error;
    EXPECT_EQ(trl_model_open(nullptr, files.path().c_str(), nullptr, &model, error), want) << error.message();
    EXPECT_EQ(model, nullptr);
    EXPECT_TRUE(error.names(files.path(file))) << error.message();
    EXPECT_EQ(bytes_of_weights(runtime.get()), before);
  };
  for (const char* file : {"model.safetensors", "config.json"}) {
    const std::string bytes = files.get(file);
    for (const size_t size : {size_t{0}, size_t{4}, size_t{100}, bytes.size() / 2, bytes.size() - 3}) {
      SCOPED_TRACE(std::to_string(size));
      files.put(file, bytes.substr(0, size));
      refused(TRL_E_FORMAT, file);
    }
    files.put(file, bytes);
  }
  // The file becomes shorter while it is read, or its reading fails in the middle.
  const size_t half = files.get("model.safetensors").size() / 2;
  files.on_read = [&](const std::string& file, uint64_t offset, size_t size) -> int64_t {
    return file == "model.safetensors" && size > 0 && offset > half ? 0 : Mounted::kGoOn;
  };
  refused(TRL_E_IO, "model.safetensors");
  files.on_read = [&](const std::string& file, uint64_t offset, size_t size) -> int64_t {
    return file == "model.safetensors" && size > 0 && offset > half ? -9 : Mounted::kGoOn;
  };
  refused(TRL_E_CALLBACK, "model.safetensors");
}

TEST(MountedModel, CountsAgainstTheLimit) {
  NEED_MODEL();
  Mounted files("limited");
  files.take(host::golden("models/qwen2"));
  const auto runtime = host::runtime();
  ASSERT_EQ(files.mount(runtime.get()), TRL_OK);
  Error error;
  int64_t now = 0, after = 0;
  ASSERT_EQ(trl_runtime_memory(runtime.get(), nullptr, &now, nullptr, nullptr), TRL_OK);
  ASSERT_EQ(trl_runtime_set_memory_limit(runtime.get(), now + 1000, error), TRL_OK) << error.message();
  trl_model* model = nullptr;
  EXPECT_EQ(trl_model_open(nullptr, files.path().c_str(), nullptr, &model, error), TRL_E_OUT_OF_MEMORY);
  EXPECT_EQ(error.key(), "runtime.host_memory_limit") << error.message();
  ASSERT_EQ(trl_runtime_memory(runtime.get(), nullptr, &after, nullptr, nullptr), TRL_OK);
  EXPECT_LE(after, now);
  ASSERT_EQ(trl_runtime_set_memory_limit(runtime.get(), 0, error), TRL_OK);
  host::open_model(files.path());
}

TEST(MountedModel, KeepsItsMount) {
  NEED_MODEL();
  Mounted files("held");
  files.take(host::golden("models/qwen2"));
  auto runtime = host::runtime();
  ASSERT_EQ(files.mount(runtime.get()), TRL_OK);
  Error error;
  trl_model* made = nullptr;
  ASSERT_EQ(trl_model_open(runtime.get(), files.path().c_str(), nullptr, &made, error), TRL_OK)
      << error.message();
  host::Model model(made);
  runtime.reset();
  EXPECT_EQ(files.destroyed, 0);
  EXPECT_FALSE(greedy(model.get()).empty());  // reads the tokenizer now
  model.reset();
  EXPECT_EQ(files.destroyed, 1);
}

TEST(MountedModel, IsPlannedCheckedAndMeasured) {
  NEED_MODEL();
  const host::Scratch scratch;
  Mounted files("planned");
  files.take(host::golden("models/qwen2"));
  const auto runtime = host::runtime();
  ASSERT_EQ(files.mount(runtime.get()), TRL_OK);
  const auto train_rows = rows();
  const Settings settings = of(scratch / "out", files.path());
  const host::Config config = host::config(settings);
  Error error;
  const char* json = nullptr;
  EXPECT_EQ(trl_trainer_check(runtime.get(), config.get(), error), TRL_OK) << error.message();
  EXPECT_EQ(trl_trainer_plan(runtime.get(), config.get(), train_rows.get(), &json, nullptr, error), TRL_OK)
      << error.message();
  EXPECT_LT(files.bytes_read["model.safetensors"], files.get("model.safetensors").size() / 2);
  const auto loss = [&](const std::string& model) {
    trl_evaluator* made = nullptr;
    EXPECT_EQ(trl_evaluator_create(nullptr, host::config(of(scratch / "out", model)).get(), &made, error),
              TRL_OK)
        << error.message();
    const host::Evaluator evaluator(made);
    const trl_metrics* metrics = nullptr;
    EXPECT_EQ(trl_evaluator_evaluate(made, train_rows.get(), &metrics, error), TRL_OK) << error.message();
    return metrics != nullptr ? host::metric(metrics, "eval_loss") : 0;
  };
  EXPECT_EQ(loss(files.path()), loss(host::golden("models/qwen2")));
}

TEST(MountedRun, LearnsAsFromTheDirectory) {
  NEED_MODEL();
  const host::Scratch scratch;
  const std::string model = host::golden("models/qwen2"), adapter = scratch / "adapter";
  Mounted files("inputs");
  const auto runtime = host::runtime();
  ASSERT_EQ(files.mount(runtime.get()), TRL_OK);
  {
    const auto lm = rows();
    const host::Trainer first = host::trainer(of(scratch / "first", model, kMountedLora), lm.get());
    train(first.get());
    save(first.get(), adapter);
  }
  files.take(model, "models/policy");
  files.take(adapter, "adapters/first");
  const auto run = [&](const char* name, const Settings& settings) {
    const auto train_rows = rows(name);
    const host::Trainer trainer = host::trainer(settings, train_rows.get());
    train(trainer.get());
    return losses(trainer.get());
  };
  const std::string mounted = files.path("models/policy");
  EXPECT_EQ(run("train_lm.jsonl",
                of(scratch / "a", mounted,
                   {{"use_peft", "true"}, {"adapter_name_or_path", files.path("adapters/first")}})),
            run("train_lm.jsonl",
                of(scratch / "b", model, {{"use_peft", "true"}, {"adapter_name_or_path", adapter}})));
  EXPECT_EQ(run("train_pref.jsonl",
                of(scratch / "c", mounted, {{"method", "dpo"}, {"ref_model_name_or_path", mounted}})),
            run("train_pref.jsonl",
                of(scratch / "d", model, {{"method", "dpo"}, {"ref_model_name_or_path", model}})));
}

// The trained model, and one that was opened, in a mount and in a directory.
TEST(MountedRun, SavesWhatADirectoryGets) {
  NEED_MODEL();
  const host::Scratch scratch;
  const std::string model = host::golden("models/qwen2");
  Mounted files("outputs");
  const auto runtime = host::runtime();
  ASSERT_EQ(files.mount(runtime.get()), TRL_OK);
  const auto lm = rows();
  int done = 0;
  const auto compare = [&](trl_trainer* trainer, const std::string& kind, const std::string& folder) {
    SCOPED_TRACE(kind + " " + folder);
    save(trainer, (scratch / folder / "saved").string(), kind);
    save(trainer, files.path(folder + "/saved"), kind);
    auto got = files.folder(folder + "/saved"), want = files_of(scratch / folder / "saved");
    for (const char* timed : {"trl_state.json", "checksums.json"})  // with the seconds that the run took
      EXPECT_EQ(got.erase(timed), want.erase(timed));
    expect_same(got, want);
    EXPECT_EQ(files.done, ++done);
  };
  {
    const host::Trainer whole = host::trainer(of(scratch / "whole_out", model), lm.get());
    train(whole.get());
    compare(whole.get(), "model", "whole");
    compare(whole.get(), "checkpoint", "checkpoint");
    compare(whole.get(), "model", "whole");  // again, over what is there
  }
  {
    const host::Trainer gguf =
        host::trainer(of(scratch / "gguf_out", model, {{"save_format", "gguf"}}), lm.get());
    compare(gguf.get(), "model", "gguf");
  }
  {
    const host::Trainer adapter = host::trainer(of(scratch / "adapter_out", model, kMountedLora), lm.get());
    train(adapter.get());
    compare(adapter.get(), "model", "adapter");
    compare(adapter.get(), "merged", "merged");
    compare(adapter.get(), "checkpoint", "adapter_checkpoint");
  }
  EXPECT_EQ(files.dropped, 0);
  EXPECT_LE(files.largest_piece, size_t{1} << 20);
  Error error;
  const host::Model opened = host::open_model(files.path("whole/saved"));
  const std::string weights = files.get("whole/saved/model.safetensors");
  ASSERT_EQ(trl_model_save(opened.get(), files.path().c_str(), nullptr, error), TRL_OK) << error.message();
  EXPECT_TRUE(files.get("model.safetensors") == weights);
  EXPECT_FALSE(files.has("whole/saved/model.safetensors"));  // the mount is what was saved
  EXPECT_EQ(greedy(host::open_model(files.path()).get()), greedy(opened.get()));
}

TEST(MountedRun, AnAdapterNamesItsMountedModel) {
  NEED_MODEL();
  const host::Scratch scratch;
  Mounted files("both");
  files.take(host::golden("models/qwen2"), "model");
  const auto runtime = host::runtime();
  ASSERT_EQ(files.mount(runtime.get()), TRL_OK);
  const auto lm = rows();
  const host::Trainer trainer =
      host::trainer(of(scratch / "out", files.path("model"), kMountedLora), lm.get());
  train(trainer.get());
  save(trainer.get(), files.path("adapter"));
  save(trainer.get(), (scratch / "adapter").string());
  const Json config = host::parse(files.get("adapter/adapter_config.json"));
  EXPECT_EQ(config["base_model_name_or_path"], files.path("model"));
  const auto want = greedy(
      host::open_model(host::golden("models/qwen2"), {{"adapter_name_or_path", scratch / "adapter"}}).get());
  EXPECT_EQ(greedy(host::open_model(files.path("adapter")).get()), want);
  const host::Model model = host::open_model(files.path("model"));
  Error error;
  ASSERT_EQ(trl_model_add_adapter(model.get(), "a", files.path("adapter").c_str(), error), TRL_OK)
      << error.message();
  ASSERT_EQ(trl_model_use_adapter(model.get(), "a", error), TRL_OK) << error.message();
  EXPECT_EQ(greedy(model.get()), want);
}

TEST(MountedRun, ResumesBitByBit) {
  NEED_MODEL();
  const host::Scratch scratch;
  const std::string model = host::golden("models/qwen2");
  Mounted files("resumed");
  const auto runtime = host::runtime();
  ASSERT_EQ(files.mount(runtime.get()), TRL_OK);
  const auto lm = rows();
  const auto resumed = [&](const Settings& more, const std::string& name) {
    return of(scratch / name, model,
              host::with(more, {{"max_steps", "4"}, {"resume_from_checkpoint", files.path(name + "/cut")}}));
  };
  Error error;
  for (const auto& [name, more] :
       {std::pair<std::string, Settings>("model", {}), {"adapter", kMountedLora}}) {
    SCOPED_TRACE(name);
    const host::Trainer whole = host::trainer(
        of(scratch / (name + "_whole"), model, host::with(more, {{"max_steps", "4"}})), lm.get());
    for (int i = 0; i < 2; ++i) ASSERT_EQ(trl_trainer_step(whole.get(), nullptr, error), TRL_OK);
    save(whole.get(), files.path(name + "/cut"), "checkpoint");
    train(whole.get());
    save(whole.get(), files.path(name + "/whole/saved"));
    const host::Trainer again = host::trainer(resumed(more, name), lm.get());
    EXPECT_EQ(host::state(again.get())["global_step"], 2);
    train(again.get());
    save(again.get(), files.path(name + "/again/saved"));
    expect_same(files.folder(name + "/again/saved"), files.folder(name + "/whole/saved"));
  }
  const std::string damaged = "adapter/cut/optimizer.safetensors";
  std::string states = files.get(damaged);
  ASSERT_FALSE(states.empty());
  states[states.size() / 2] ^= 1;
  files.put(damaged, states);
  trl_trainer* trainer = nullptr;
  EXPECT_EQ(trl_trainer_create(nullptr, host::config(resumed(kMountedLora, "adapter")).get(), lm.get(),
                               nullptr, &trainer, error),
            TRL_E_FORMAT);
  EXPECT_TRUE(error.names(files.path(damaged))) << error.message();
}

TEST(MountedRun, AFailedSaveIsDropped) {
  NEED_MODEL();
  const host::Scratch scratch;
  Mounted files("failing");
  const auto runtime = host::runtime();
  ASSERT_EQ(files.mount(runtime.get()), TRL_OK);
  const auto lm = rows();
  const host::Trainer trainer = host::trainer(of(scratch / "out", host::golden("models/qwen2")), lm.get());
  Error error;
  for (const char* kind : {"model", "checkpoint"}) {
    SCOPED_TRACE(kind);
    const host::Config options = host::config({{"save.kind", kind}});
    files.writes = 0;
    save(trainer.get(), files.path(kind), kind);
    const auto before = files.folder(kind);
    const int calls = files.writes, done = files.done;
    ASSERT_GT(calls, 5);
    for (int call = 0; call < calls; ++call) {
      files.writes = 0;
      files.dropped = 0;
      files.fail_write = call;
      EXPECT_EQ(trl_trainer_save(trainer.get(), files.path(kind).c_str(), options.get(), error),
                TRL_E_CALLBACK)
          << call;
      EXPECT_EQ(trl_error_callback_code(error.get()), files.write_code) << error.message();
      EXPECT_TRUE(error.names(files.path(kind))) << error.message();
      EXPECT_EQ(files.dropped, 1) << call;
      EXPECT_EQ(files.writes, call + 2) << call;  // and nothing else was called
    }
    EXPECT_EQ(files.done, done);
    expect_same(files.folder(kind), before);
    files.fail_write = -1;
    ASSERT_EQ(trl_trainer_step(trainer.get(), nullptr, error), TRL_OK) << error.message();
    save(trainer.get(), files.path(kind), kind);
  }
  ASSERT_EQ(trl_runtime_mount(runtime.get(), "unwritable", nullptr, nullptr, nullptr, nullptr, nullptr),
            TRL_OK);
  EXPECT_EQ(trl_trainer_save(trainer.get(), "host://unwritable/a", nullptr, error), TRL_E_IO);
  EXPECT_TRUE(error.names("host://unwritable/a")) << error.message();
  EXPECT_EQ(trl_trainer_save(trainer.get(), "host://", nullptr, error), TRL_E_INVALID_ARGUMENT);
  EXPECT_TRUE(error.names("the name of a mount is missing")) << error.message();
  EXPECT_FALSE(std::filesystem::exists("host:"));
}

TEST(MountedRun, WritesNothingElseThere) {
  NEED_MODEL();
  const host::Scratch scratch;
  const std::string model = host::golden("models/qwen2");
  Mounted files("refused");
  files.take(model);
  const auto runtime = host::runtime();
  ASSERT_EQ(files.mount(runtime.get()), TRL_OK);
  const auto lm = rows();
  Error error;
  for (const auto& [key, more] :
       std::vector<std::pair<std::string, Settings>>{{"output_dir", {}},
                                                     {"logging_dir", {}},
                                                     {"dataset_cache_dir", {}},
                                                     {"offload_dir", {{"optim", "paged_adamw_8bit"}}}}) {
    const host::Config config =
        host::config(of(scratch / "out", model, host::with(more, {{key, files.path("out")}})));
    trl_trainer* trainer = nullptr;
    EXPECT_EQ(trl_trainer_create(nullptr, config.get(), lm.get(), nullptr, &trainer, error),
              TRL_E_INVALID_CONFIG)
        << key;
    EXPECT_EQ(error.key(), key) << error.message();
  }
  for (const auto& [from, to] :
       {std::pair{files.path(), (scratch / "to").string()}, std::pair{model, files.path("to")}}) {
    EXPECT_EQ(trl_model_convert(nullptr, from.c_str(), to.c_str(), nullptr, error), TRL_E_UNSUPPORTED);
    EXPECT_TRUE(error.names(files.path())) << error.message();
  }
  EXPECT_EQ(files.writes, 0);
}

// A descriptor's path, which the host may have got from elsewhere.
TEST(Descriptors, ArePathsOfModelsAndAdapters) {
  NEED_MODEL();
  const host::Scratch scratch;
  const std::string model = host::golden("models/qwen2"), adapter = scratch / "adapter";
  const auto lm = rows();
  {
    const host::Trainer trainer = host::trainer(of(scratch / "out", model, kMountedLora), lm.get());
    train(trainer.get());
    save(trainer.get(), adapter);
  }
  const auto want = greedy(host::open_model(model, {{"adapter_name_or_path", adapter}}).get());
  const int folders[] = {::open(model.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC),
                         ::open(adapter.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  for (const std::string place : {"/proc/self/fd/", "/dev/fd/"}) {
    const std::string named = place + std::to_string(folders[0]), beside = place + std::to_string(folders[1]);
    EXPECT_EQ(greedy(host::open_model(named, {{"adapter_name_or_path", beside}}).get()), want);
  }
  for (const int folder : folders) ::close(folder);
  Error error;
  ASSERT_EQ(trl_model_convert(nullptr, model.c_str(), (scratch / "m.gguf").c_str(), nullptr, error), TRL_OK)
      << error.message();
  const int file = ::open((scratch / "m.gguf").c_str(), O_RDONLY | O_CLOEXEC);
  EXPECT_EQ(greedy(host::open_model("/proc/self/fd/" + std::to_string(file)).get()),
            greedy(host::open_model((scratch / "m.gguf").string()).get()));
  ::close(file);
}

}  // namespace
