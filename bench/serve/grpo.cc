#include <algorithm>

#include "serve/parts.h"
#include "serve/rewarded_run.h"
#include "serve/served.h"

namespace trl::bench {

namespace {

constexpr int64_t kGroup = 8;
constexpr const char* kType = "bfloat16";  // on both sides, or ids differ

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
  RewardedRun colocate(options, steps);
  options.update({{"vllm_mode", "server"},
                  {"vllm_server_base_url", served.url()},
                  {"vllm_server_adapter_dir", scratch.file("adapters")},
                  {"output_dir", scratch.file("server")}});
  RewardedRun server(options, steps);
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
