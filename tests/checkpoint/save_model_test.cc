// A saved directory holds the same model again; a save that fails leaves what was there before.
#include <gtest/gtest.h>

#include "base/error.h"
#include "checkpoint/save.h"
#include "io/temporary_file.h"
#include "support/golden.h"

namespace trl::checkpoint {
namespace {

using base::Json;
using test::TemporaryDirectory;

std::unique_ptr<model::Model> open(const std::string& name, std::string_view dtype = "float32") {
  return model::Model::open(test::golden_path("models/" + name), dtype);
}

void expect_same(model::Model& a, model::Model& b) {
  ASSERT_EQ(a.parameters().size(), b.parameters().size());
  for (size_t i = 0; i < a.parameters().size(); ++i) {
    EXPECT_EQ(a.parameters()[i]->name, b.parameters()[i]->name);
    EXPECT_TRUE(at::equal(*a.parameters()[i]->read(), *b.parameters()[i]->read())) << a.parameters()[i]->name;
  }
}

// Every file of a directory with its bytes.
std::map<std::string, std::string> contents(const std::string& path) {
  std::map<std::string, std::string> files;
  for (const std::string& name : base::list_directory(path))
    files[name] = base::read_file(base::join_path(path, name));
  return files;
}

const std::vector<engine::NamedBytes> kTokenizerFiles = {{"tokenizer.json", "{}"},
                                                         {"chat_template.jinja", "hello"}};

TEST(SaveModel, ReloadsEqual) {
  TRL_NEED_GOLDEN("models/llama/config.json");
  const TemporaryDirectory directory;
  int saved = 0;
  for (const std::string name :
       {"llama", "llama3", "llama_sharded", "mistral", "qwen2", "qwen2_bf16", "qwen3"}) {
    for (const std::string_view dtype : {"float32", "bfloat16"}) {
      SCOPED_TRACE(fmt::format("{} {}", name, dtype));
      const auto model = open(name, dtype);
      const std::string path = directory.file(fmt::format("{}-{}", name, dtype));
      save_model(path, *model, kTokenizerFiles);
      const auto again = model::Model::open(path, "auto");
      EXPECT_EQ(again->dtype(), model->dtype());
      expect_same(*model, *again);
      const auto files = contents(path);
      std::vector<std::string> names;
      for (const auto& [file, bytes] : files) names.push_back(file);
      EXPECT_EQ(names,
                (std::vector<std::string>{"chat_template.jinja", "config.json", "generation_config.json",
                                          "model.safetensors", "tokenizer.json"}));
      EXPECT_EQ(files.at("chat_template.jinja"), "hello");
      // The config is the loaded one, except for the type of the weights.
      Json config = base::read_json_file(base::join_path(path, "config.json"));
      Json original = base::read_json_file(test::golden_path("models/" + name + "/config.json"));
      const char* key = original.contains("torch_dtype") ? "torch_dtype" : "dtype";
      EXPECT_EQ(config[key], dtype);
      original[key] = dtype;
      EXPECT_EQ(config, original);
      EXPECT_EQ(base::read_json_file(base::join_path(path, "generation_config.json")),
                base::read_json_file(test::golden_path("models/" + name + "/generation_config.json")));
      ++saved;
    }
  }
  EXPECT_EQ(saved, 14);
}

TEST(SaveModel, FilesMayLieInFolders) {
  TRL_NEED_GOLDEN("models/llama/config.json");
  const TemporaryDirectory directory;
  const auto model = open("llama");
  const engine::NamedBytes file{"additional_chat_templates/tool_use.jinja", "tools"};
  for (int i = 0; i < 2; ++i) save_model(directory.file("out"), *model, {&file, 1});
  EXPECT_EQ(base::read_file(directory.file("out/additional_chat_templates/tool_use.jinja")), "tools");
}

TEST(SaveModel, ShardsComeAndGo) {
  TRL_NEED_GOLDEN("models/llama/config.json");
  const TemporaryDirectory directory;
  const auto model = open("llama");
  const std::string path = directory.file("out");
  const auto weight_files = [&] {
    int count = 0;
    for (const std::string& name : base::list_directory(path)) count += io::is_weight_file(name);
    return count;
  };
  save_model(path, *model, {}, nullptr, 100'000);
  const int many = weight_files();
  EXPECT_GE(many, 4);
  EXPECT_FALSE(base::file_exists(base::join_path(path, "model.safetensors")));
  expect_same(*model, *model::Model::open(path, "auto"));
  base::write_file(base::join_path(path, "notes.txt"), "mine");
  save_model(path, *model, {}, nullptr, 200'000);
  EXPECT_LT(weight_files(), many);
  EXPECT_GE(weight_files(), 3);
  expect_same(*model, *model::Model::open(path, "auto"));
  save_model(path, *model, {});
  EXPECT_EQ(weight_files(), 1);
  EXPECT_TRUE(base::file_exists(base::join_path(path, "model.safetensors")));
  expect_same(*model, *model::Model::open(path, "auto"));
  save_model(path, *model, {}, nullptr, 100'000);
  EXPECT_EQ(weight_files(), many);
  EXPECT_EQ(base::read_file(base::join_path(path, "notes.txt")), "mine");
}

TEST(SaveModel, AFaultAnywhereLeavesTheOldOutputWhole) {
  TRL_NEED_GOLDEN("models/llama/config.json");
  const TemporaryDirectory directory;
  const auto model = open("llama");
  const std::string path = directory.file("out");
  save_model(path, *model, kTokenizerFiles);
  const auto before = contents(path);
  for (model::Parameter* parameter : model->parameters()) parameter->write()->add_(1.0);
  for (const int64_t shard : {io::kMaxShardBytes, int64_t{100'000}}) {
    int writes = 0;
    for (int nth = 0;; ++nth) {
      writes = 0;
      const base::WriteFault fault = [&](const std::string& file, size_t) {
        if (writes++ == nth) fail(Status::io, "{}: cannot be written: No space left on device", file);
      };
      try {
        save_model(path, *model, kTokenizerFiles, &fault, shard);
        break;
      } catch (const Error& error) {
        EXPECT_EQ(error.status(), Status::io);
        ASSERT_EQ(contents(path), before) << "after a fault at write " << nth;
        ASSERT_EQ(base::list_directory(directory.path()), std::vector<std::string>{"out"});
      }
    }
    EXPECT_GT(writes, 20);
    expect_same(*model, *model::Model::open(path, "auto"));
    save_model(path, *open("llama"), kTokenizerFiles);
    EXPECT_EQ(contents(path), before);
  }
  // Into a new directory: nothing appears.
  const base::WriteFault always = [](const std::string& file, size_t) { fail(Status::io, "{}: full", file); };
  EXPECT_THROW(save_model(directory.file("fresh"), *model, {}, &always), Error);
  EXPECT_EQ(base::list_directory(directory.path()), std::vector<std::string>{"out"});
}

TEST(SaveModel, ArchitectureIsThatOfTheWeights) {
  TRL_NEED_GOLDEN("models/llama/config.json");
  const TemporaryDirectory directory;
  save_model(directory.file("in"), *open("llama"), {});
  Json config = base::read_json_file(directory.file("in/config.json"));
  config["architectures"] = Json::array({"LlamaModel"});
  config["transformers_version"] = "4.1.0";
  directory.write("in/config.json", config.dump());
  save_model(directory.file("out"), *model::Model::open(directory.file("in"), "auto"), {});
  config["architectures"] = Json::array({"LlamaForCausalLM"});
  EXPECT_EQ(base::read_json_file(directory.file("out/config.json")), config);
}

TEST(SaveModel, RefusesNamesThatAreNotItsOwn) {
  TRL_NEED_GOLDEN("models/llama/config.json");
  const TemporaryDirectory directory;
  const auto model = open("llama");
  for (const std::string_view name :
       {"", "..", "../x", "a//b", "config.json", "model.safetensors", "model.safetensors.index.json"}) {
    const engine::NamedBytes file{name, ""};
    EXPECT_THROW(save_model(directory.file("out"), *model, {&file, 1}), Error) << name;
  }
  EXPECT_TRUE(base::list_directory(directory.path()).empty());
}

}  // namespace
}  // namespace trl::checkpoint
