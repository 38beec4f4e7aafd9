// What a plan itself takes of a machine.
#include <sys/resource.h>

#include <filesystem>
#include <fstream>

#include "engine/run.h"

namespace {

using host::Error;
using host::Json;

// The shape of a model with 7 billion numbers, whose file has a header and takes no disk beyond it.
void write_shape(const std::filesystem::path& directory) {
  constexpr int64_t kWidth = 4096, kInner = 11008, kWords = 32000, kLayers = 32;
  std::filesystem::create_directories(directory);
  for (const char* file : {"tokenizer.json", "tokenizer_config.json"})
    std::filesystem::copy_file(host::golden("models/llama/" + std::string(file)), directory / file);
  Json config = host::golden_json("models/llama/config.json");
  config.update({{"hidden_size", kWidth},
                 {"intermediate_size", kInner},
                 {"vocab_size", kWords},
                 {"num_hidden_layers", kLayers},
                 {"num_attention_heads", 32},
                 {"num_key_value_heads", 32},
                 {"head_dim", 128},
                 {"max_position_embeddings", 16384},
                 {"tie_word_embeddings", false}});
  host::write_file(directory / "config.json", config.dump());
  Json tensors = Json::object();
  int64_t end = 0;
  const auto add = [&](const std::string& name, const std::vector<int64_t>& shape) {
    const int64_t begin = end;
    end += 2 * shape[0] * (shape.size() > 1 ? shape[1] : 1);
    tensors[name + ".weight"] = {{"dtype", "BF16"}, {"shape", shape}, {"data_offsets", {begin, end}}};
  };
  add("model.embed_tokens", {kWords, kWidth});
  for (int64_t layer = 0; layer < kLayers; ++layer) {
    const std::string at = "model.layers." + std::to_string(layer) + ".";
    for (const char* name : {"q_proj", "k_proj", "v_proj", "o_proj"})
      add(at + "self_attn." + name, {kWidth, kWidth});
    add(at + "mlp.gate_proj", {kInner, kWidth});
    add(at + "mlp.up_proj", {kInner, kWidth});
    add(at + "mlp.down_proj", {kWidth, kInner});
    add(at + "input_layernorm", {kWidth});
    add(at + "post_attention_layernorm", {kWidth});
  }
  add("model.norm", {kWidth});
  add("lm_head", {kWords, kWidth});
  std::string header = tensors.dump();
  header.resize((header.size() + 7) / 8 * 8, ' ');
  const uint64_t size = header.size();
  const std::filesystem::path file = directory / "model.safetensors";
  host::write_file(file, std::string(reinterpret_cast<const char*>(&size), 8) + header);
  std::filesystem::resize_file(file, 8 + size + static_cast<uint64_t>(end));
}

double cpu_seconds() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  const auto of = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return of(used.ru_utime) + of(used.ru_stime);
}

// Of resident memory, in bytes: VmRSS or VmHWM, the most since forget_peak().
double resident(const std::string& name) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(name + ":")) return 1024 * std::stod(line.substr(name.size() + 1));
  }
  return 0;
}
void forget_peak() { std::ofstream("/proc/self/clear_refs") << 5; }

struct Cost {
  double seconds = 0, bytes = 0;
};

// message: of the error, where one is expected.
Cost cost_of(const host::Settings& settings, std::string* message = nullptr) {
  const auto runtime = host::runtime();
  const char* json = nullptr;
  Error error;
  forget_peak();
  const double before = resident("VmRSS"), begun = cpu_seconds();
  const trl_status status =
      trl_trainer_plan(runtime.get(), host::config(settings).get(), nullptr, &json, nullptr, error);
  const Cost cost = {cpu_seconds() - begun, resident("VmHWM") - before};
  if (message != nullptr) *message = error.message();
  EXPECT_EQ(status, message == nullptr ? TRL_OK : TRL_E_INVALID_CONFIG) << error.message();
  return cost;
}

class PlanCost : public testing::Test {
 protected:
  void SetUp() override {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "a sanitizer takes time and memory of its own";
#endif
    if (!std::filesystem::exists(host::golden("models/llama/model.safetensors")))
      GTEST_SKIP() << "no recorded model";
    write_shape(scratch_ / "7b");
  }
  host::Settings run_of(const host::Settings& more) const {
    return host::with({{"model_name_or_path", scratch_ / "7b"},
                       {"output_dir", scratch_ / "out"},
                       {"max_length", "8192"},
                       {"per_device_train_batch_size", "1"},
                       {"max_steps", "10"},
                       {"estimate.compare", "[]"}},
                      more);
  }
  const host::Scratch scratch_;
};

TEST_F(PlanCost, AStepOfSevenBillionNumbersTouchesNoPages) {
  cost_of(run_of({{"max_length", "64"}}));  // opens the libraries
  for (const host::Settings& more : std::vector<host::Settings>{
           {},
           {{"dtype", "bfloat16"}},
           {{"gradient_accumulation_steps", "4"}},
           {{"optimizer_in_backward", "true"}, {"max_grad_norm", "0"}},
           {{"optim", "adafactor"}},
           {{"use_peft", "true"}, {"lora_target_modules", "all-linear"}, {"eval_strategy", "steps"}},
           {{"use_peft", "true"}, {"load_in_4bit", "true"}},
           {{"method", "dpo"}}}) {
    const Cost cost = cost_of(run_of(more));
    const std::string what = more.empty() ? "" : more.front().first + "=" + more.front().second;
    EXPECT_LT(cost.seconds, 2) << what;
    EXPECT_LT(cost.bytes, 150e6) << what;
  }
}

TEST_F(PlanCost, ABudgetThatIsTooLittleIsToldSoon) {
  std::string message;
  const Cost cost = cost_of(run_of({{"memory_budget", "8GB"}}), &message);
  EXPECT_NE(message.find("is too little: this run takes at least"), std::string::npos) << message;
  EXPECT_LT(cost.seconds, 5);
  EXPECT_LT(cost.bytes, 300e6);
}

}  // namespace
