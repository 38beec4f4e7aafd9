// A rehearsal of a large model reads no weights and has no pages, whatever is trained and however.
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "config/lora_config.h"
#include "model/config/model_config.h"
#include "tensor/memory/rehearsal.h"
#include "train/tiny_run.h"

namespace trl::train::rehearsed_pages_test {
namespace {

namespace fs = std::filesystem;
using test::Settings;

constexpr int64_t kMiB = int64_t{1} << 20;

// The recorded model made large: 700 MB of weights that are a hole in a file.
void write_large(const std::string& directory) {
  fs::copy(test::golden_path("models/qwen2"), directory);
  fs::remove(directory + "/model.safetensors");
  base::Json json = base::read_json_file(directory + "/config.json");
  json.update({{"hidden_size", 1024},
               {"intermediate_size", 12288},
               {"num_hidden_layers", 4},
               {"num_attention_heads", 16},
               {"num_key_value_heads", 8}});
  json.erase("layer_types");
  base::replace_file(directory + "/config.json", json.dump());
  base::Json header;
  int64_t end = 0;
  for (const model::TensorShape& tensor : model::tensor_list(model::parse_config(json, directory))) {
    int64_t bytes = 4;
    for (const int64_t size : tensor.shape) bytes *= size;
    header[tensor.name] = {{"dtype", "F32"}, {"shape", tensor.shape}, {"data_offsets", {end, end + bytes}}};
    end += bytes;
  }
  const std::string text = header.dump(), file = directory + "/model.safetensors";
  const auto size = static_cast<uint64_t>(text.size());
  std::ofstream out(file, std::ios::binary);
  out.write(reinterpret_cast<const char*>(&size), sizeof size) << text;
  out.close();
  ASSERT_EQ(::truncate(file.c_str(), static_cast<off_t>(sizeof size + text.size()) + end), 0);
}

int64_t most_resident() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("VmHWM:")) return std::stoll(line.substr(6)) * 1024;
  return 0;
}

int64_t counted(const tensor::Rehearsal& rehearsal) {
  int64_t bytes = 0;
  for (const tensor::Taken& taken : rehearsal.taken()) bytes += taken.bytes;
  return bytes;
}

TEST(RehearsedPages, AreNone) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "AddressSanitizer keeps memory beside each block";
#endif
  TRL_NEED_TINY_RUN();
  const test::Scratch scratch;
  const std::string model = scratch / "large";
  write_large(model);
  struct Case {
    Settings settings;
    const char* lora = nullptr;
  };
  const char* const kLora = R"({"r": 8, "target_modules": "all-linear"})";
  const char* const kPissa = R"({"r": 8, "target_modules": "all-linear", "init_lora_weights": "pissa"})";
  const char* const kDora = R"({"r": 8, "target_modules": "all-linear", "use_dora": true})";
  const char* const kUpper =
      R"({"r": 8, "target_modules": ["q_proj", "down_proj"], "layers_to_transform": [3]})";
  const std::string cache = scratch / "cache";
  const Case cases[] = {
      {{}},
      {{{"optim", "adagrad"}, {"optim_args", "initial_accumulator_value=0.1"}}},
      {{{"optim", "ademamix_8bit"}}},
      {{{"optim", "adafactor"}}},
      {{{"optim", "paged_adamw_32bit"}, {"offload_dir", TRL_BINARY_DIR}}},
      {{{"gradient_checkpointing", "true"}, {"optimizer_in_backward", "true"}, {"max_grad_norm", "0"}}},
      {{{"gradient_dtype", "bfloat16"}, {"gradient_accumulation_steps", "2"}}},
      {{{"activation_offloading", "true"}, {"offload_dir", TRL_BINARY_DIR}}},
      {{{"use_peft", "true"}}, kLora},
      {{{"use_peft", "true"}}, kPissa},
      {{{"use_peft", "true"}}, kDora},
      {{{"use_peft", "true"}, {"cache_frozen_layers", cache.c_str()}}, kUpper},
      {{{"use_peft", "true"}, {"load_in_4bit", "true"}, {"bnb_4bit_quant_type", "nf4"}}, kLora},
      {{{"use_peft", "true"}, {"load_in_8bit", "true"}}, kLora}};
  for (const Case& of : cases) {
    std::string name;
    for (const auto& [key, value] : of.settings) name += std::string(key) + ": " + value + " ";
    SCOPED_TRACE(name);
    Settings settings = of.settings;
    settings.insert(settings.end(), {{"max_steps", "1"}, {"bf16", "true"}, {"on_nonfinite", "continue"}});
    ASSERT_TRUE((std::ofstream("/proc/self/clear_refs") << 5).flush());  // VmHWM begins again
    const int64_t before = most_resident();
    {
      tensor::Rehearsal rehearsal;
      test::SftRun run(test::tiny_config(settings), model, test::golden_path("data/datasets/train_lm.jsonl"),
                       {0, 11});
      if (of.lora != nullptr) {
        const config::LoraConfig config =
            config::read_lora_config(base::parse_json(of.lora, "test"), "test", Status::format);
        model::Adapter& adapter = run.model().adapters().add("default", config, at::kFloat);
        adapter.start(7);
        run.model().train_only(adapter);
      }
      run.start().rehearse();
      EXPECT_GT(counted(rehearsal), 200 * kMiB);
    }
    EXPECT_LT(most_resident() - before, 48 * kMiB);
  }
  EXPECT_FALSE(fs::exists(cache));
}

}  // namespace
}  // namespace trl::train::rehearsed_pages_test
