// Model::open: what is missing, damaged or unknown is an error that names it; dtypes; files of mixed types.
#include <gtest/gtest.h>

#include "base/error.h"
#include "io/temporary_file.h"
#include "model/golden_batch.h"
#include "model/model.h"
#include "support/seeded_model.h"

namespace trl::model {
namespace {

using base::Json;
using test::TemporaryDirectory;

std::string message_of(const std::string& path, Status status, std::string_view dtype = "float32") {
  try {
    Model::open(path, dtype);
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), status) << error.message();
    return error.message();
  }
  ADD_FAILURE() << "opened without an error";
  return {};
}

void expect_error(const std::string& path, Status status, std::string_view part,
                  std::string_view dtype = "float32") {
  const std::string message = message_of(path, status, dtype);
  EXPECT_NE(message.find(part), std::string::npos) << message;
}

// A copy of a recorded model that can be damaged.
struct Copy {
  explicit Copy(const std::string& name) {
    const std::string from = test::golden_path("models/" + name);
    for (const std::string& file : base::list_directory(from)) {
      directory.write(file, base::read_file(base::join_path(from, file)));
    }
  }
  Json config() const { return base::read_json_file(directory.file("config.json")); }
  void write(const Json& config) const { directory.write("config.json", config.dump()); }
  // The tensors of model.safetensors, written again after `change`.
  template <typename Change>
  void rewrite(const Change& change) const {
    const std::string bytes = base::read_file(directory.file("model.safetensors"));
    const std::string old = directory.write("old", bytes);
    const io::Safetensors file(old);
    std::vector<io::NamedTensor> tensors;
    for (const auto& [name, view] : file.tensors())
      tensors.push_back({name, view.type, view.shape, view.data});
    change(tensors);
    io::write_safetensors(directory.file("model.safetensors"), tensors);
  }
  TemporaryDirectory directory;
};

TEST(Open, NamesWhatIsMissing) {
  TRL_NEED_GOLDEN("models/llama/config.json");
  expect_error("/nonexistent/model", Status::not_found,
               "/nonexistent/model: no such file or directory; give a");
  const TemporaryDirectory empty;
  expect_error(empty.path(), Status::not_found, "it has no config.json; give a Hugging Face model directory");
  expect_error(empty.write("m.gguf", "not one"), Status::format, "m.gguf: not a GGUF file");
  const Copy copy("llama");
  base::remove_tree(copy.directory.file("model.safetensors"));
  expect_error(copy.directory.path(), Status::not_found, "holds neither model.safetensors");
}

TEST(Open, BadConfig) {
  TRL_NEED_GOLDEN("models/llama/config.json");
  const Copy copy("llama");
  Json config = copy.config();
  config["model_type"] = "mystery";
  copy.write(config);
  expect_error(
      copy.directory.path(), Status::unsupported,
      "config.json: model_type \"mystery\" is not a known family; these are: llama, mistral, qwen2, qwen3");
  copy.directory.write("config.json", "{\"model_type\": ");
  expect_error(copy.directory.path(), Status::format, "config.json:1:");
  expect_error(test::golden_path("models/llama"), Status::invalid_config,
               "dtype \"float16\" is not supported; these are: auto, float32, bfloat16", "float16");
}

TEST(Open, EndIdsAreThoseOfGenerationOrElseOfTheConfig) {
  TRL_NEED_GOLDEN("models/llama/config.json");
  using Ids = std::vector<int32_t>;
  const Copy copy("llama");
  const std::string path = copy.directory.path();
  const auto end_ids = [&] { return Model::open(path, "float32")->end_ids(); };
  copy.directory.write("generation_config.json", R"({"eos_token_id": [7, 9]})");
  EXPECT_EQ(end_ids(), (Ids{7, 9}));
  copy.directory.write("generation_config.json", R"({"eos_token_id": null})");
  EXPECT_EQ(end_ids(), Ids());
  for (const char* bad : {R"("</s>")", "2.5", "[7, true]", "-1", "{}"}) {
    copy.directory.write("generation_config.json", fmt::format(R"({{"eos_token_id": {}}})", bad));
    expect_error(path, Status::format, "generation_config.json: \"eos_token_id\" is ");
  }
  copy.directory.write("generation_config.json", "[]");
  expect_error(path, Status::format, "generation_config.json: not a JSON object");
  base::remove_tree(copy.directory.file("generation_config.json"));
  Json config = copy.config();
  config["eos_token_id"] = 11;
  copy.write(config);
  EXPECT_EQ(end_ids(), Ids{11});
}

TEST(Open, BadWeights) {
  TRL_NEED_GOLDEN("models/llama/config.json");
  const Copy copy("llama");
  const std::string path = copy.directory.path();
  const std::string good = base::read_file(copy.directory.file("model.safetensors"));
  copy.directory.write("model.safetensors", good.substr(0, good.size() / 2));
  expect_error(path, Status::format, "model.safetensors: tensor ");
  copy.directory.write("model.safetensors", good.substr(0, 100));
  expect_error(path, Status::format, "model.safetensors: header length");

  copy.directory.write("model.safetensors", good);
  copy.rewrite([](auto& tensors) {
    std::erase_if(tensors, [](const auto& t) { return t.name == "model.layers.1.mlp.up_proj.weight"; });
  });
  expect_error(path, Status::format, "tensor model.layers.1.mlp.up_proj.weight is missing");

  copy.directory.write("model.safetensors", good);
  copy.rewrite([](auto& tensors) {
    for (auto& tensor : tensors) {
      if (tensor.name == "model.layers.0.mlp.up_proj.weight") tensor.shape = {64, 112};
    }
  });
  expect_error(
      path, Status::format,
      "tensor model.layers.0.mlp.up_proj.weight has shape [64, 112], config.json asks for [112, 64]");

  copy.directory.write("model.safetensors", good);
  copy.rewrite([](auto& tensors) {
    for (auto& tensor : tensors) {
      if (tensor.name == "model.norm.weight") tensor.type = io::ElementType::i32;
    }
  });
  expect_error(path, Status::unsupported, "tensor model.norm.weight: dtype I32 is not supported");

  const Copy untied("llama");
  Json config = untied.config();
  config["tie_word_embeddings"] = false;
  untied.write(config);
  expect_error(untied.directory.path(), Status::format, "tensor lm_head.weight is missing");
}

// A matrix of one expert.
TEST(Open, AMissingExpertIsNamed) {
  for (const char* const family : {"mixtral", "qwen2_moe", "qwen3_moe"}) {
    SCOPED_TRACE(family);
    const test::SeededModel seeded(family);
    std::vector<io::NamedTensor> tensors;
    std::string last;
    for (const test::SeededTensor& tensor : seeded.tensors) {
      tensors.push_back({tensor.name, io::ElementType::f32, tensor.shape, tensor.values.data()});
      if (tensor.name.find(".experts.") != std::string::npos) last = tensor.name;
    }
    ASSERT_FALSE(last.empty());
    std::erase_if(tensors, [&](const io::NamedTensor& tensor) { return tensor.name == last; });
    io::write_safetensors(seeded.directory / "model.safetensors", tensors);
    expect_error(seeded.directory.path(), Status::format, fmt::format("tensor {} is missing", last));
  }
}

struct Lines final : base::LogSink {
  std::vector<std::string> lines;
  void write(base::LogLevel, std::string_view, std::string_view text) noexcept override {
    lines.emplace_back(text);
  }
};

TEST(Open, SlotsAreTheModulesWithParameters) {
  TRL_NEED_GOLDEN("models/llama/config.json");
  const auto model = Model::open(test::golden_path("models/qwen2"), "float32");
  const std::vector<Slot>& slots = model->adapters().slots();
  ASSERT_EQ(slots.size(), 1 + 2u * 9 + 2);
  const auto expect = [&](size_t at, const char* name, int64_t in, int64_t out) {
    EXPECT_EQ(slots[at].module.name, name);
    EXPECT_EQ(slots[at].module.in, in) << name;
    EXPECT_EQ(slots[at].module.out, out) << name;
  };
  expect(0, "model.embed_tokens", 512, 64);
  expect(1, "model.layers.0.self_attn.q_proj", 64, 64);
  expect(3, "model.layers.0.self_attn.v_proj", 64, 32);
  expect(4, "model.layers.0.self_attn.o_proj", 64, 64);
  expect(15, "model.layers.1.mlp.up_proj", 64, 112);
  expect(16, "model.layers.1.mlp.down_proj", 112, 64);
  expect(17, "model.layers.1.input_layernorm", 0, 0);
  expect(20, "lm_head", 64, 512);
  // The layer computes with the weight of its slot.
  const ForwardInput input = test::forward_input({{3, 4, 5}});
  const at::NoGradGuard no_grad;
  const at::Tensor before = model->forward(input, {}).hidden;
  const at::Tensor values = slots[1].weight->read()->clone();
  slots[1].weight->write()->zero_();
  EXPECT_FALSE(at::equal(model->forward(input, {}).hidden, before));
  slots[1].weight->write()->copy_(values);
  EXPECT_TRUE(at::equal(model->forward(input, {}).hidden, before));
}

TEST(Open, TiedHeadAndUnusedTensors) {
  TRL_NEED_GOLDEN("models/llama/config.json");
  const Copy copy("llama");
  const std::vector<float> buffer(8, 1.0f);
  copy.rewrite([&](auto& tensors) {
    for (const auto& tensor : std::vector<io::NamedTensor>(tensors)) {
      if (tensor.name == "model.embed_tokens.weight")
        tensors.push_back({"lm_head.weight", tensor.type, tensor.shape, tensor.data});
    }
    tensors.push_back(
        {"model.layers.0.self_attn.rotary_emb.inv_freq", io::ElementType::f32, {8}, buffer.data()});
    tensors.push_back({"score.weight", io::ElementType::f32, {8}, buffer.data()});
  });
  Lines log;
  const auto model = Model::open(copy.directory.path(), "float32", &log);
  EXPECT_EQ(log.lines, std::vector<std::string>{"tensor score.weight is not used by this family"});
  EXPECT_EQ(model->parameters().size(), 20u);
  EXPECT_EQ(&model->head(), model->parameters().front());
  Json config = copy.config();
  config["num_hidden_layers"] = 1;
  copy.write(config);
  Lines fewer;
  Model::open(copy.directory.path(), "float32", &fewer);
  EXPECT_EQ(fewer.lines, (std::vector<std::string>{
                             "tensor score.weight is not used by this family",
                             "the files have weights of 2 layers, and config.json has num_hidden_layers 1: 9 "
                             "tensors of the remaining layers are not read"}));
  config["num_hidden_layers"] = 2;
  copy.write(config);
  std::vector<float> other(448 * 64, 0.5f);
  copy.rewrite([&](auto& tensors) {
    for (auto& tensor : tensors) {
      if (tensor.name == "lm_head.weight") tensor.data = other.data();
    }
  });
  expect_error(copy.directory.path(), Status::format,
               "tensor lm_head.weight differs from the embedding although tie_word_embeddings is true");
}

TEST(Open, DtypesAndTheirRounding) {
  TRL_NEED_GOLDEN("models/llama/config.json");
  EXPECT_EQ(Model::open(test::golden_path("models/llama"), "auto")->dtype(), at::kFloat);
  EXPECT_EQ(Model::open(test::golden_path("models/qwen2_bf16"), "auto")->dtype(), at::kBFloat16);
  const auto wide = Model::open(test::golden_path("models/llama"), "float32");
  const auto narrow = Model::open(test::golden_path("models/llama"), "bfloat16");
  const auto a = wide->parameters();
  const auto b = narrow->parameters();
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i)
    EXPECT_TRUE(at::equal(a[i]->read()->to(at::kBFloat16), *b[i]->read())) << a[i]->name;
  const auto up = Model::open(test::golden_path("models/qwen2_bf16"), "float32");
  const auto as_is = Model::open(test::golden_path("models/qwen2_bf16"), "bfloat16");
  for (size_t i = 0; i < up->parameters().size(); ++i) {
    EXPECT_TRUE(at::equal(*up->parameters()[i]->read(), as_is->parameters()[i]->read()->to(at::kFloat)));
  }
}

TEST(Open, HalfPrecisionFilesAreConverted) {
  TRL_NEED_GOLDEN("models/llama/config.json");
  const auto original = Model::open(test::golden_path("models/llama"), "float32");
  const Copy copy("llama");
  Json config = copy.config();
  config["dtype"] = "float16";
  copy.write(config);
  std::vector<at::Tensor> halves;
  copy.rewrite([&](auto& tensors) {
    for (auto& tensor : tensors) {
      at::Tensor value = at::empty(tensor.shape, at::kFloat);
      io::read_floats(tensor.type, tensor.data, 0, value.numel(), value.data_ptr<float>());
      halves.push_back(value.to(at::kHalf));
      tensor.type = io::ElementType::f16;
      tensor.data = halves.back().data_ptr();
    }
  });
  const auto model = Model::open(copy.directory.path(), "auto");
  EXPECT_EQ(model->dtype(), at::kFloat);
  for (size_t i = 0; i < original->parameters().size(); ++i) {
    const at::Tensor want = original->parameters()[i]->read()->to(at::kHalf).to(at::kFloat);
    EXPECT_TRUE(at::equal(*model->parameters()[i]->read(), want)) << model->parameters()[i]->name;
  }
}

}  // namespace
}  // namespace trl::model
