// trl_model_get_tensors, trl_model_read_tensor and trl_model_write_tensor: of models that a host has opened.
#include "engine/tensors.h"

#include <algorithm>
#include <stdexcept>
#include <thread>

namespace {

using host::Error;
using host::FloatTensor;
using host::Json;
using host::Settings;

#define NEED_MODEL() NEED_GOLDEN("models/qwen2/model.safetensors")

constexpr const char* kMatrix = "model.layers.0.mlp.down_proj.weight";

std::vector<std::string> models_here(std::initializer_list<const char*> names) {
  std::vector<std::string> all;
  for (const std::string name : names)
    if (!host::golden("models/" + name + "/config.json").empty()) all.push_back("models/" + name);
  return all;
}

// Expects the list and copies of all tensors to be those of the saved file. stored: of the tensors in blocks.
void expect_saved(trl_model* model, const std::map<std::string, host::Tensor>& files,
                  const std::string& stored = "") {
  const std::map<std::string, Json> list = host::tensors_of(model);
  EXPECT_EQ(list.size(), files.size());
  int in_blocks = 0;
  for (const auto& [name, tensor] : files) {
    SCOPED_TRACE(name);
    ASSERT_TRUE(list.count(name));
    const Json& entry = list.at(name);
    EXPECT_EQ(entry["shape"], Json(tensor.shape));
    EXPECT_EQ(entry["trained"], false);
    EXPECT_EQ(entry["gradient"], false);
    const bool blocks = entry["stored"] != entry["dtype"];
    in_blocks += blocks ? 1 : 0;
    // A GGUF file has rows that do not fill their blocks in float16.
    const bool whole = tensor.shape.back() % 32 == 0 || stored != "q8_0";
    if (blocks) {
      EXPECT_EQ(entry["stored"], whole ? stored : "float16");
    }
    const host::ReadTensor copy = host::read_tensor(model, name);
    ASSERT_NE(copy, nullptr);
    EXPECT_EQ(copy->flags, host::kIsCopied);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(copy->dl_tensor.data) % 64, 0u);
    EXPECT_EQ(host::shape_of(*copy), tensor.shape);
    EXPECT_EQ(entry["dtype"], copy->dl_tensor.dtype.bits == 16 ? "bfloat16" : "float32");
    EXPECT_TRUE(host::floats(*copy) == tensor.values);
  }
  EXPECT_EQ(in_blocks > 0, !stored.empty());
}

TEST(Tensors, AreThoseOfASavedDirectory) {
  NEED_MODEL();
  for (const std::string& name :
       models_here({"qwen2", "qwen2_bf16", "llama", "llama3", "llama_sharded", "mistral", "qwen3",
                    "qwen3_moe", "gpt2", "gemma2", "gemma3", "phi3"})) {
    SCOPED_TRACE(name);
    const host::Scratch scratch;
    const host::Model model = host::open_model(host::golden(name));
    expect_saved(model.get(), host::saved(model.get(), scratch / "saved"));
  }
}

TEST(Tensors, InBlocksAreDecoded) {
  NEED_MODEL();
  const host::Scratch scratch;
  Error error;
  const std::string gguf = scratch / "m.gguf";
  ASSERT_EQ(trl_model_convert(nullptr, host::golden("models/qwen2").c_str(), gguf.c_str(),
                              host::config({{"convert.type", "q8_0"}}).get(), error),
            TRL_OK)
      << error.message();
  struct Case {
    std::string path;
    Settings settings;
    const char* stored;
  };
  std::vector<Case> cases = {{gguf, {{"dtype", "keep"}}, "q8_0"}};
  for (const std::string& name : models_here({"qwen2", "qwen3_moe", "gpt2"})) {
    cases.push_back({host::golden(name), {{"load_in_4bit", "true"}}, "nf4"});
    cases.push_back({host::golden(name), {{"load_in_8bit", "true"}}, "int8"});
  }
  for (size_t i = 0; i < cases.size(); ++i) {
    const Case& c = cases[i];
    SCOPED_TRACE(c.path + " " + c.stored);
    const host::Model model = host::open_model(c.path, c.settings);
    const auto files = host::saved(model.get(), scratch / std::to_string(i));
    expect_saved(model.get(), files, c.stored);
    for (const auto& [name, entry] : host::tensors_of(model.get())) {
      if (entry["stored"] == entry["dtype"]) continue;
      EXPECT_EQ(host::refused_read(model.get(), name, TRL_TENSOR_VIEW, error), TRL_E_UNSUPPORTED);
      EXPECT_TRUE(error.names("read a copy")) << error.message();
      FloatTensor given(files.at(name).shape);
      EXPECT_EQ(trl_model_write_tensor(model.get(), name.c_str(), given.get(), error), TRL_E_UNSUPPORTED);
      EXPECT_TRUE(error.names("is held as")) << error.message();
      EXPECT_EQ(given.deleted(), 1);
      EXPECT_TRUE(host::values_of(model.get(), name) == files.at(name).values);
    }
  }
}

TEST(Tensors, AViewIsTheWeightItself) {
  NEED_MODEL();
  const host::Model model = host::open_model(host::golden("models/qwen2"));
  const host::ReadTensor view = host::read_tensor(model.get(), kMatrix, TRL_TENSOR_VIEW),
                         again = host::read_tensor(model.get(), kMatrix, TRL_TENSOR_VIEW),
                         copy = host::read_tensor(model.get(), kMatrix);
  EXPECT_EQ(view->flags, host::kReadOnly);
  EXPECT_EQ(view->dl_tensor.data, again->dl_tensor.data);
  EXPECT_NE(view->dl_tensor.data, copy->dl_tensor.data);
  const std::vector<float> before = host::floats(*copy);
  EXPECT_TRUE(host::floats(*view) == before);
  const std::vector<int64_t> shape = host::shape_of(*copy);
  host::write_tensor(model.get(), kMatrix, {shape, std::vector<float>(before.size(), 0.5F)});
  EXPECT_EQ(host::floats(*view)[1], 0.5F);
  EXPECT_TRUE(host::floats(*copy) == before);
}

TEST(Tensors, CopiesAreCounted) {
  NEED_MODEL();
  const host::Runtime runtime = host::runtime();
  const host::Model model = host::open_model(host::golden("models/qwen2"));
  const auto counted = [&] {
    int64_t now = 0;
    EXPECT_EQ(trl_runtime_memory(runtime.get(), "weights", &now, nullptr, nullptr), TRL_OK);
    return now;
  };
  const int64_t before = counted();
  host::ReadTensor copy = host::read_tensor(model.get(), kMatrix);
  const auto bytes = static_cast<int64_t>(host::count_of(host::shape_of(*copy)) * sizeof(float));
  EXPECT_GE(counted(), before + bytes);
  std::thread([&] { copy.reset(); }).join();  // on any thread
  EXPECT_EQ(counted(), before);
}

TEST(Tensors, StayWhenTheirModelIsDestroyed) {
  NEED_MODEL();
  host::Model model = host::open_model(host::golden("models/qwen2"));
  const host::ReadTensor copy = host::read_tensor(model.get(), kMatrix),
                         view = host::read_tensor(model.get(), kMatrix, TRL_TENSOR_VIEW);
  const std::vector<float> before = host::floats(*copy);
  model.reset();
  EXPECT_TRUE(host::floats(*copy) == before);
  EXPECT_EQ(host::floats(*view).size(), before.size());  // readable
}

// A generator that has keys, and copies of weights in fewer bits, computes with the new weights as one of a
// model with these does; a saved directory has them.
TEST(Tensors, AWriteIsSeenByAll) {
  NEED_MODEL();
  for (const std::string& name : models_here({"qwen2", "llama3", "qwen3_moe", "gpt2"})) {
    for (const Settings& options :
         std::vector<Settings>{{}, {{"generation_dtype", "int8"}}, {{"generation_dtype", "bfloat16"}}}) {
      SCOPED_TRACE(name + (options.empty() ? "" : " " + options[0].second));
      const host::Scratch scratch;
      const std::filesystem::path other = host::trained_model(name, scratch);
      const auto wanted = host::read_safetensors(other / "model.safetensors");
      const host::Model model = host::open_model(host::golden(name), options);
      const host::Generator generator = host::generator_of(model.get());
      const std::vector<int32_t> before = host::greedy(generator.get());
      for (const auto& [tensor, values] : wanted) host::write_tensor(model.get(), tensor, values);
      const std::vector<int32_t> after = host::greedy(generator.get());
      EXPECT_EQ(after, host::greedy(host::generator_of(host::open_model(other, options).get()).get()));
      EXPECT_EQ(after, host::greedy(host::generator_of(model.get()).get()));
      if (name == "models/qwen2") {
        EXPECT_NE(after, before);
      }
      EXPECT_TRUE(host::saved(model.get(), scratch / "saved") == wanted);
    }
  }
}

// Element (r, c) is of the same value however it is given.
TEST(Tensors, AreWrittenFromEveryTypeAndOrder) {
  NEED_MODEL();
  const host::Model model = host::open_model(host::golden("models/qwen2"));
  const host::ReadTensor first = host::read_tensor(model.get(), kMatrix);
  const std::vector<int64_t> shape = host::shape_of(*first);
  ASSERT_EQ(shape.size(), 2u);
  const int64_t rows = shape[0], columns = shape[1];
  const auto value = [](int64_t r, int64_t c) { return static_cast<float>((r * 7 + c * 3) % 128) / 16 - 4; };
  std::vector<float> wanted;
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c) wanted.push_back(value(r, c));
  const auto expect_written = [&](auto& given) {
    host::write_tensor(model.get(), kMatrix, {shape, std::vector<float>(wanted.size())});
    Error error;
    EXPECT_EQ(trl_model_write_tensor(model.get(), kMatrix, given.get(), error), TRL_OK) << error.message();
    EXPECT_EQ(given.deleted(), 1);
    EXPECT_TRUE(host::values_of(model.get(), kMatrix) == wanted);
  };
  {
    host::GivenTensor<double> given(host::kFloat64, shape, std::vector<double>(wanted.begin(), wanted.end()));
    expect_written(given);
  }
  {
    std::vector<uint16_t> bits;
    for (const float x : wanted)
      bits.push_back(static_cast<uint16_t>(std::bit_cast<uint32_t>(x) >> 16));  // exact
    host::GivenTensor<uint16_t> given(host::kBfloat16, shape, bits);
    expect_written(given);
  }
  {
    std::vector<float> turned(wanted.size());
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < columns; ++c) turned[static_cast<size_t>(c * rows + r)] = value(r, c);
    FloatTensor given(shape, turned);
    given.set_strides({1, rows});
    expect_written(given);
  }
  {
    std::vector<float> backwards(wanted.rbegin(), wanted.rend());
    FloatTensor given(shape, backwards);
    given.set_strides({-columns, -1});
    given.tensor().byte_offset = (wanted.size() - 1) * sizeof(float);
    expect_written(given);
  }
  {
    FloatTensor given(shape, wanted);
    given.get()->deleter = nullptr;
    Error error;
    EXPECT_EQ(trl_model_write_tensor(model.get(), kMatrix, given.get(), error), TRL_OK) << error.message();
  }
}

TEST(Tensors, AWriteIsRoundedToTheWeightsType) {
  NEED_GOLDEN("models/qwen2_bf16/model.safetensors");
  const host::Model model = host::open_model(host::golden("models/qwen2_bf16"), {{"dtype", "bfloat16"}});
  const std::string name = "model.norm.weight";
  const std::vector<int64_t> shape = host::shape_of(*host::read_tensor(model.get(), name));
  host::write_tensor(model.get(), name, {shape, std::vector<float>(host::count_of(shape), 1.0009765625F)});
  EXPECT_EQ(host::values_of(model.get(), name)[0], 1.0F);
}

TEST(Tensors, RefuseWhatDoesNotFit) {
  NEED_MODEL();
  const host::Model model = host::open_model(host::golden("models/qwen2"));
  const std::vector<float> before = host::values_of(model.get(), kMatrix);
  const std::vector<int64_t> shape = host::shape_of(*host::read_tensor(model.get(), kMatrix));
  Error error;
  EXPECT_EQ(host::refused_read(model.get(), "model.layers.0.mlp.down_proj.weights", TRL_TENSOR_COPY, error),
            TRL_E_NOT_FOUND);
  EXPECT_TRUE(error.names("did you mean \"model.layers.0.mlp.down_proj.weight\"?")) << error.message();
  EXPECT_EQ(host::refused_read(model.get(), "lm_head.weight", TRL_TENSOR_COPY, error), TRL_E_NOT_FOUND);
  EXPECT_TRUE(error.names("model.embed_tokens.weight")) << error.message();
  EXPECT_EQ(host::refused_read(model.get(), kMatrix, 7, error), TRL_E_INVALID_ARGUMENT);
  EXPECT_EQ(host::refused_read(model.get(), kMatrix, TRL_TENSOR_GRADIENT, error), TRL_E_NOT_FOUND);
  EXPECT_TRUE(error.names("is not trained")) << error.message();
  EXPECT_EQ(trl_model_write_tensor(model.get(), kMatrix, nullptr, error), TRL_E_INVALID_ARGUMENT);
  const auto refused = [&](const std::string& says, const std::function<void(FloatTensor&)>& spoil,
                           const char* name = kMatrix, trl_status status = TRL_E_INVALID_ARGUMENT) {
    SCOPED_TRACE(says);
    FloatTensor given(shape);
    spoil(given);
    EXPECT_EQ(trl_model_write_tensor(model.get(), name, given.get(), error), status);
    EXPECT_TRUE(error.names(says)) << error.message();
    EXPECT_EQ(given.deleted(), 1);
  };
  const auto untouched = [](FloatTensor&) {};
  refused("has no tensor", untouched, "model.norm", TRL_E_NOT_FOUND);
  refused("name is NULL", untouched, nullptr);
  refused("name is not UTF-8", untouched, "\xff");
  refused("has shape",
          [](FloatTensor& given) { std::swap(given.tensor().shape[0], given.tensor().shape[1]); });
  refused("has shape", [](FloatTensor& given) { given.tensor().ndim = 1; });
  refused("shape is [", [](FloatTensor& given) { given.tensor().shape[1] = -1; });
  refused("ndim is -1", [](FloatTensor& given) { given.tensor().ndim = -1; });
  refused("ndim is 1000000000", [](FloatTensor& given) { given.tensor().ndim = 1000000000; });
  refused("shape is NULL", [](FloatTensor& given) { given.tensor().shape = nullptr; });
  refused("data is NULL", [](FloatTensor& given) { given.tensor().data = nullptr; });
  refused("byte_offset 2", [](FloatTensor& given) { given.tensor().byte_offset = 2; });
  refused("code 0, 32 bits", [](FloatTensor& given) { given.tensor().dtype.code = 0; });
  refused("8 bits", [](FloatTensor& given) { given.tensor().dtype.bits = 8; });
  refused("2 lanes", [](FloatTensor& given) { given.tensor().dtype.lanes = 2; });
  refused("device of type 2", [](FloatTensor& given) { given.tensor().device.device_type = 2; });
  refused("version is 2.0", [](FloatTensor& given) { given.get()->version.major = 2; });
  EXPECT_TRUE(host::values_of(model.get(), kMatrix) == before);
}

TEST(Tensors, ADeleterThatThrowsEndsTheCall) {
  NEED_MODEL();
  const host::Model model = host::open_model(host::golden("models/qwen2"));
  const std::vector<int64_t> shape = host::shape_of(*host::read_tensor(model.get(), kMatrix));
  FloatTensor given(shape);
  given.on_deletion = [&] {
    Error inner;
    EXPECT_EQ(host::refused_read(model.get(), kMatrix, TRL_TENSOR_COPY, inner), TRL_E_BUSY);
    throw std::runtime_error("it is not mine");
  };
  Error error;
  EXPECT_EQ(trl_model_write_tensor(model.get(), kMatrix, given.get(), error), TRL_E_CALLBACK);
  EXPECT_EQ(error.message(), "the host's deleter callback threw: it is not mine");
  EXPECT_EQ(given.deleted(), 1);
  EXPECT_EQ(host::values_of(model.get(), kMatrix)[0], 0.0F);
}

TEST(Tensors, AreNotWrittenWhileAnAdapterIsMerged) {
  NEED_MODEL();
  const host::Scratch scratch;
  const std::string adapter =
      host::trained_model("models/qwen2", scratch, {{"use_peft", "true"}, {"lora_dropout", "0"}});
  const host::Model model = host::open_model(host::golden("models/qwen2"));
  Error error;
  ASSERT_EQ(trl_model_add_adapter(model.get(), "mine", adapter.c_str(), error), TRL_OK) << error.message();
  ASSERT_EQ(trl_model_merge_adapter(model.get(), "mine", error), TRL_OK) << error.message();
  const std::vector<int64_t> shape = host::shape_of(*host::read_tensor(model.get(), kMatrix));
  FloatTensor given(shape);
  EXPECT_EQ(trl_model_write_tensor(model.get(), kMatrix, given.get(), error), TRL_E_UNSUPPORTED);
  EXPECT_TRUE(error.names("adapter \"mine\" is merged")) << error.message();
  ASSERT_EQ(trl_model_merge_adapter(model.get(), nullptr, error), TRL_OK) << error.message();
  host::write_tensor(model.get(), kMatrix, {shape, std::vector<float>(host::count_of(shape))});
}

}  // namespace
