// Checkpoints that transformers saved of a model that bitsandbytes had quantised: the weights are those that
// the same model gets here, and damage is named.
#include <gtest/gtest.h>

#include <ATen/core/grad_mode.h>

#include <deque>

#include "base/error.h"
#include "io/four_bit.h"
#include "io/temporary_file.h"
#include "model/golden_batch.h"
#include "model/model.h"
#include "support/error_of.h"
#include "support/seeded_model.h"

namespace trl::model {
namespace {

using base::Json;
using config::Quantization;
using config::WeightForm;
using test::TemporaryDirectory;

std::string stored_file(const std::string& name) {
  return TRL_SOURCE_DIR "/tests/golden/quantization/" + name + ".safetensors";
}

// The recorded quantised tensors beside the other ones of the model that they were made of.
void write_checkpoint(const TemporaryDirectory& directory, const std::string& quantised) {
  const std::string from = test::golden_path("models/qwen2");
  Json config = base::read_json_file(from + "/config.json");
  config["quantization_config"] = {{"quant_method", "bitsandbytes"}, {"load_in_4bit", true}};
  directory.write("config.json", config.dump());
  directory.write("quantised.safetensors", quantised);
  const io::Safetensors stored(directory.file("quantised.safetensors"));
  const io::Safetensors base(from + "/model.safetensors");
  Json map = Json::object();
  std::vector<io::NamedTensor> others;
  for (const auto& [name, view] : stored.tensors()) map[name] = "quantised.safetensors";
  for (const auto& [name, view] : base.tensors()) {
    if (map.contains(name)) continue;
    map[name] = "others.safetensors";
    others.push_back({name, view.type, view.shape, view.data});
  }
  io::write_safetensors(directory.file("others.safetensors"), others);
  directory.write("model.safetensors.index.json",
                  Json({{"metadata", Json::object()}, {"weight_map", map}}).dump());
}

// What transformers 4 saved of a mixture of experts: a tensor of blocks for each matrix of each expert.
TEST(Prequantised, ExpertsHaveTheWeightsThatTheModelGetsHere) {
  const test::SeededModel model("mixtral");
  std::vector<io::NamedTensor> named;
  std::deque<std::vector<uint8_t>> bytes;
  std::deque<std::vector<float>> scales;
  const auto map = io::four_bit_code(io::FourBit::nf4);
  for (const test::SeededTensor& tensor : model.tensors) {
    const bool linear = tensor.name.find(".experts.") != std::string::npos ||
                        tensor.name.find("self_attn") != std::string::npos;
    if (!linear) {
      named.push_back({tensor.name, io::ElementType::f32, tensor.shape, tensor.values.data()});
      continue;
    }
    const auto count = std::ssize(tensor.values);
    auto& codes = bytes.emplace_back(static_cast<size_t>(count / 2));
    auto& absmax = scales.emplace_back(static_cast<size_t>(count / 64));
    io::encode_four_bit(io::FourBit::nf4, tensor.values.data(), count, 64, codes.data(), absmax.data());
    const std::string state =
        Json({{"quant_type", "nf4"}, {"blocksize", 64}, {"dtype", "float32"}, {"shape", tensor.shape}})
            .dump();
    auto& text = bytes.emplace_back(state.begin(), state.end());
    named.push_back({tensor.name, io::ElementType::u8, {count / 2, 1}, codes.data()});
    named.push_back({tensor.name + ".absmax", io::ElementType::f32, {count / 64}, absmax.data()});
    named.push_back({tensor.name + ".quant_map", io::ElementType::f32, {16}, map.data()});
    named.push_back({tensor.name + ".quant_state.bitsandbytes__nf4",
                     io::ElementType::u8,
                     {std::ssize(text)},
                     text.data()});
  }
  const TemporaryDirectory directory;
  directory.write("config.json", model.json["config"].dump());
  io::write_safetensors(directory.file("model.safetensors"), named);
  const auto got = Model::open(directory.path(), "float32");
  const auto want = Model::open(model.directory.path(), "float32", nullptr, at::kCPU, Head::language,
                                Quantization{WeightForm::nf4});
  ASSERT_EQ(got->parameters().size(), want->parameters().size());
  for (size_t i = 0; i < want->parameters().size(); ++i) {
    EXPECT_TRUE(got->parameters()[i]->read()->equal(*want->parameters()[i]->read()))
        << want->parameters()[i]->name;
    EXPECT_EQ(got->parameters()[i]->encoded() != nullptr, want->parameters()[i]->encoded() != nullptr);
  }
  // One of them as numbers.
  for (io::NamedTensor& tensor : named) {
    if (tensor.name.starts_with("model.layers.1.block_sparse_moe.experts.2.w3.weight"))
      tensor.name += ".lost";
  }
  const auto w3 =
      std::find_if(model.tensors.begin(), model.tensors.end(), [](const test::SeededTensor& tensor) {
        return tensor.name == "model.layers.1.block_sparse_moe.experts.2.w3.weight";
      });
  named.push_back({w3->name, io::ElementType::f32, w3->shape, w3->values.data()});
  io::write_safetensors(directory.file("model.safetensors"), named);
  const auto [status, message] = test::error_of([&] { Model::open(directory.path(), "float32"); });
  EXPECT_EQ(status, Status::format);
  EXPECT_NE(message.find("model.layers.1.block_sparse_moe.experts.2.w3.weight is not stored in the form of "),
            std::string::npos)
      << message;
}

TEST(Prequantised, HasTheWeightsThatTheModelGetsHere) {
  TRL_NEED_GOLDEN("models/qwen2/config.json");
  const std::pair<const char*, Quantization> forms[] = {{"nf4", {WeightForm::nf4}},
                                                        {"nf4_nested", {WeightForm::nf4, true}},
                                                        {"fp4", {WeightForm::fp4}},
                                                        {"int8", {WeightForm::int8}}};
  for (const auto& [name, form] : forms) {
    SCOPED_TRACE(name);
    const TemporaryDirectory directory;
    write_checkpoint(directory, base::read_file(stored_file(name)));
    const auto got = Model::open(directory.path(), "float32");
    const auto want =
        Model::open(test::golden_path("models/qwen2"), "float32", nullptr, at::kCPU, Head::language, form);
    ASSERT_EQ(got->parameters().size(), want->parameters().size());
    for (size_t i = 0; i < want->parameters().size(); ++i) {
      Parameter &a = *got->parameters()[i], &b = *want->parameters()[i];
      EXPECT_EQ(a.name, b.name);
      EXPECT_EQ(a.encoded() != nullptr, b.encoded() != nullptr) << a.name;
      EXPECT_TRUE((*a.read()).equal(*b.read())) << a.name;
    }
  }
}

TEST(Prequantised, NamesADamagedPart) {
  TRL_NEED_GOLDEN("models/qwen2/config.json");
  const std::string state = "self_attn.q_proj.weight.quant_state.bitsandbytes__nf4: ";
  struct Damage {
    const char *text, *by;
    std::string message;
  };
  const Damage damages[] = {
      {"\"blocksize\": 64", "\"blocksize\": 65", "\"blocksize\" is 65; it should be a power of two"},
      {"\"blocksize\": 64", "\"blocksize\": -4", "\"blocksize\" is -4; it should be a power of two"},
      {"\"blocksize\": 64", "\"blockSize\": 64", "\"blocksize\" is missing; it should be"},
      {"\"shape\": [", "\"shape\": {", "not valid JSON"},
      {"\"quant_type\": \"nf4\"", "\"quant_type\": \"fp4\"", "\"quant_type\" is \"fp4\"; its name has nf4"},
      {"\"nested_offset\": ", "\"nested_offset\"; ", "not valid JSON"},
  };
  const std::string whole = base::read_file(stored_file("nf4_nested"));
  for (const Damage& damage : damages) {
    std::string bytes = whole;
    const size_t at = bytes.find(damage.text);
    ASSERT_NE(at, bytes.npos) << damage.text;
    bytes.replace(at, std::strlen(damage.by), damage.by);
    const TemporaryDirectory directory;
    write_checkpoint(directory, bytes);
    try {
      Model::open(directory.path(), "float32");
      ADD_FAILURE() << "opened with " << damage.by;
    } catch (const Error& error) {
      EXPECT_EQ(error.status(), Status::format) << error.message();
      EXPECT_NE(error.message().find("quant_state.bitsandbytes__nf4"), std::string::npos) << error.message();
      EXPECT_NE(error.message().find(damage.message), std::string::npos) << error.message();
    }
  }
}

// bnb_4bit_quant_storage: the same bytes under another type.
TEST(Prequantised, CodesMayBeStoredAsAnotherType) {
  TRL_NEED_GOLDEN("models/qwen2/config.json");
  const TemporaryDirectory plain;
  write_checkpoint(plain, base::read_file(stored_file("nf4_nested")));
  const auto want = Model::open(plain.path(), "float32");
  for (const io::ElementType type : {io::ElementType::bf16, io::ElementType::f16, io::ElementType::f32}) {
    SCOPED_TRACE(io::element_name(type));
    const TemporaryDirectory directory;
    write_checkpoint(directory, base::read_file(stored_file("nf4_nested")));
    const io::Safetensors file(plain.file("quantised.safetensors"));
    std::vector<io::NamedTensor> tensors;
    for (const auto& [name, view] : file.tensors()) {
      const auto count = static_cast<int64_t>(view.bytes / io::element_size(type));
      const bool codes = name.ends_with(".weight") && view.type_name == "U8";
      tensors.push_back(
          {name, codes ? type : view.type, codes ? std::vector<int64_t>{count, 1} : view.shape, view.data});
    }
    io::write_safetensors(directory.file("quantised.safetensors"), tensors);
    const auto got = Model::open(directory.path(), "float32");
    for (size_t i = 0; i < want->parameters().size(); ++i)
      EXPECT_TRUE((*got->parameters()[i]->read()).equal(*want->parameters()[i]->read()));
  }
}

TEST(Prequantised, NamesAScaleThatIsNotFinite) {
  TRL_NEED_GOLDEN("models/qwen2/config.json");
  const std::pair<const char*, const char*> parts[] = {
      {"nf4", ".weight.absmax"}, {"nf4_nested", ".weight.nested_absmax"}, {"int8", ".SCB"}};
  for (const auto& [form, part] : parts) {
    const std::string name = std::string("model.layers.0.self_attn.q_proj") + part;
    const TemporaryDirectory directory;
    std::string bytes = base::read_file(stored_file(form));
    write_checkpoint(directory, bytes);
    {
      const io::Safetensors file(directory.file("quantised.safetensors"));
      const io::TensorView& view = file.tensors().at(name);
      const float value = std::numeric_limits<float>::infinity();
      std::vector<float> values(view.bytes / sizeof value);
      std::memcpy(values.data(), view.data, view.bytes);
      values.back() = value;
      const std::string found(static_cast<const char*>(view.data), view.bytes);
      bytes.replace(bytes.find(found), view.bytes,
                    std::string(reinterpret_cast<const char*>(values.data()), view.bytes));
    }
    directory.write("quantised.safetensors", bytes);
    try {
      Model::open(directory.path(), "float32");
      ADD_FAILURE() << "opened with " << name;
    } catch (const Error& error) {
      EXPECT_NE(error.message().find(name + ": element "), std::string::npos) << error.message();
      EXPECT_NE(error.message().find(" is inf"), std::string::npos) << error.message();
    }
  }
}

TEST(Prequantised, NamesAPartThatIsMissing) {
  TRL_NEED_GOLDEN("models/qwen2/config.json");
  for (const char* part : {".absmax", ".quant_map", ".nested_absmax", ".nested_quant_map"}) {
    const std::string name = std::string("model.layers.0.self_attn.q_proj.weight") + part;
    const TemporaryDirectory directory;
    write_checkpoint(directory, base::read_file(stored_file("nf4_nested")));
    Json index = base::read_json_file(directory.file("model.safetensors.index.json"));
    index["weight_map"].erase(name);
    directory.write("model.safetensors.index.json", index.dump());
    try {
      Model::open(directory.path(), "float32");
      ADD_FAILURE() << "opened without " << name;
    } catch (const Error& error) {
      EXPECT_NE(error.message().find(name + " is missing"), std::string::npos) << error.message();
    }
  }
}

TEST(Prequantised, AnotherFormIsNotAskedFor) {
  TRL_NEED_GOLDEN("models/qwen2/config.json");
  const TemporaryDirectory directory;
  write_checkpoint(directory, base::read_file(stored_file("nf4")));
  const Quantization same{WeightForm::nf4}, other{WeightForm::int8};
  EXPECT_NO_THROW(Model::open(directory.path(), "float32", nullptr, at::kCPU, Head::language, same));
  try {
    Model::open(directory.path(), "float32", nullptr, at::kCPU, Head::language, other);
    FAIL() << "opened";
  } catch (const Error& error) {
    EXPECT_EQ(error.key(), "load_in_8bit");
  }
}

}  // namespace
}  // namespace trl::model
