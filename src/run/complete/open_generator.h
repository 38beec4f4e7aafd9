// Opens generators of a model, with the memory that the options give to keys and values.
#pragma once
#include "config/config.h"
#include "run/complete/requests.h"

namespace trl::run {

// Reads kv_cache_memory, kv_cache_dtype, prefix_cache, generation_dtype, generation_dtype_head, fused_kernels
// and vllm_enable_sleep_mode. Prompts stay within the positions of the model.
// kv_cache_memory: auto: half of the memory that is left under memory_budget, runtime.host_memory_limit, the
// cgroup and the machine. vllm_gpu_memory_utilization, if it is set: a share of that memory.
engine::GeneratorSpec generator_spec(Environment& environment, const config::Config& options);

// The same with the options of a trainer. If it writes completions, it computes as training does: its
// generators share one cache, and long_prompts decides which prompts there are.
engine::GeneratorSpec training_generator_spec(Environment& environment, const config::Config& options);

// The same without kv_cache_memory, for the sizes of keys and values.
engine::GeneratorSpec cache_spec(const config::Config& options);

// Requests to a new generator; the arguments outlive the result.
Requests open_requests(Environment& environment, engine::Model& model, const Tokenizer& tokenizer,
                       const engine::GeneratorSpec& spec);

}  // namespace trl::run
