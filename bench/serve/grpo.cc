#include <algorithm>

#include "serve/parts.h"
#include "serve/served.h"
#include "support/abi.h"

namespace trl::bench {

namespace {

constexpr int64_t kGroup = 8;
constexpr const char* kType = "bfloat16";  // on both sides, or ids differ

// A run of GRPO that trains an adapter, and the ids that it has learned on.
class Run {
 public:
  Run(const Json& options, int64_t rows) {
    trainer_ = open_trainer_of(options, rows);
    TRL_CHECK(trl_trainer_add_reward(trainer_, "points", reward, this, nullptr, &error));
  }
  ~Run() { trl_trainer_destroy(trainer_); }
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  // Returns its seconds.
  double step() {
    const trl_metrics* metrics = nullptr;
    const double begin = now();
    TRL_CHECK(trl_trainer_step(trainer_, &metrics, &error));
    return now() - begin;
  }
  const std::vector<Json>& ids() const { return ids_; }

 private:
  static trl_trainer* open_trainer_of(const Json& options, int64_t rows) {
    std::string text;
    for (int64_t row = 0; row < rows; ++row)
      text += Json({{"prompt", "Tell me of day " + std::to_string(row) + " by the sea:"}}).dump() + "\n";
    trl_config* const config = config_of(options);
    trl_runtime* runtime = nullptr;
    trl_dataset* dataset = nullptr;
    trl_trainer* trainer = nullptr;
    TRL_CHECK(trl_runtime_create(config, &runtime, &error));
    TRL_CHECK(trl_dataset_from_buffer(runtime, "jsonl", text.data(), text.size(), nullptr, &dataset, &error));
    TRL_CHECK(trl_trainer_create(runtime, config, dataset, nullptr, &trainer, &error));
    trl_dataset_destroy(dataset);
    trl_runtime_destroy(runtime);
    trl_config_destroy(config);
    return trainer;
  }

  // Gives as many points as the sum of the ids leaves.
  static int32_t reward(void* self, trl_rollout* rollout) {
    for (size_t i = 0; i < trl_rollout_count(rollout); ++i) {
      const char* text = nullptr;
      if (trl_rollout_get(rollout, i, &text, nullptr) != TRL_OK) return TRL_E_INTERNAL;
      Json ids = Json::parse(text).at("completion_ids");
      int64_t sum = 0;
      for (const Json& id : ids) sum += id.get<int64_t>();
      static_cast<Run*>(self)->ids_.push_back(std::move(ids));
      if (trl_rollout_set_reward(rollout, i, static_cast<double>(sum % 7), nullptr) != TRL_OK)
        return TRL_E_INTERNAL;
    }
    return TRL_OK;
  }

  trl_trainer* trainer_ = nullptr;
  std::vector<Json> ids_;
};

}  // namespace

bool measure_grpo(const ServeSettings& s, const Scratch& scratch) {
  const Served served(s.model, s.threads,
                      {{"serve.enable_lora", true},
                       {"serve.max_lora_rank", s.rank},
                       {"serve.adapter_dir", scratch.file("adapters")}},
                      kType);
  const int64_t steps = s.steps + 1;
  Json options = {{"method", "grpo"},
                  {"model_name_or_path", s.model},
                  {"dtype", kType},
                  {"bf16", false},
                  {"use_peft", true},
                  {"lora_r", s.rank},
                  {"lora_dropout", 0},
                  {"learning_rate", 1e-5},
                  {"num_generations", kGroup},
                  {"per_device_train_batch_size", kGroup},
                  {"max_completion_length", s.new_tokens},
                  {"max_steps", steps},
                  {"save_strategy", "no"},
                  {"use_vllm", true},
                  {"runtime.threads", s.threads},
                  {"output_dir", scratch.file("colocate")}};
  Run colocate(options, steps);
  options.update({{"vllm_mode", "server"},
                  {"vllm_server_base_url", served.url()},
                  {"vllm_server_adapter_dir", scratch.file("adapters")},
                  {"output_dir", scratch.file("server")}});
  Run server(options, steps);
  std::vector<double> own, other;
  for (int64_t i = 0; i < steps; ++i) {  // by turns A B B A
    const bool first = i % 2 == 0;
    if (first) own.push_back(colocate.step());
    other.push_back(server.step());
    if (!first) own.push_back(colocate.step());
  }
  size_t equal = 0;
  const size_t rows = std::min(colocate.ids().size(), server.ids().size());
  while (equal < rows && colocate.ids()[equal] == server.ids()[equal]) ++equal;
  own.erase(own.begin());
  other.erase(other.begin());
  print({{"bench", "grpo"},
         {"group", kGroup},
         {"new_tokens", s.new_tokens},
         {"rank", s.rank},
         {"colocate_seconds", median(own)},
         {"server_seconds", median(other)},
         {"overhead", median(other) / median(own) - 1},
         {"rows", rows},
         {"equal_rows", equal}});  // from the first on
  return rows > 0 && equal == rows;
}

}  // namespace trl::bench
