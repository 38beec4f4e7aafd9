#include "run/complete/open_generator.h"

#include <optional>

#include "base/error.h"
#include "base/memory/system_memory.h"
#include "base/text/number.h"
#include "config/model_options.h"
#include "config/sizes_and_paths.h"
#include "config/table/option_value.h"
#include "config/training_arguments.h"
#include "engine/error_capture.h"
#include "run/open_model.h"
#include "run/plan/memory_budget.h"

namespace trl::run {

namespace {

constexpr const char* kCacheMemory = "kv_cache_memory";

// "25%" -> 0.25; nullopt: the text is not a share.
std::optional<double> share_of(std::string_view text) {
  if (!text.ends_with('%')) return std::nullopt;
  const std::optional<double> percent = base::parse_double(text.substr(0, text.size() - 1));
  if (!percent || !(*percent > 0 && *percent <= 100))
    fail_key(kCacheMemory, "{}: {} is not a share: give more than 0% and at most 100%", kCacheMemory, text);
  return *percent / 100;
}

// Returns the share that kv_cache_memory, or vLLM's name for it, asks for; nullopt: it has bytes.
std::optional<double> cache_share(const config::Config& options) {
  constexpr const char* kVllm = "vllm_gpu_memory_utilization";
  const std::string text = options.get(kCacheMemory);
  const std::optional<double> given =
      options.is_set(kVllm) ? options.get_optional_double(kVllm) : std::nullopt;
  if (given && options.is_set(kCacheMemory)) {
    fail_key(kVllm, "{}: {} and {}: {} are both given, and mean the same: give one of them", kVllm,
             options.get(kVllm), kCacheMemory, text);
  }
  if (given) return given;
  return text == "auto" ? std::optional(0.5) : share_of(text);
}

int64_t given_bytes(const std::string& text) {
  const std::optional<int64_t> bytes = config::parse_memory_size(text);
  if (!bytes || *bytes < 1) {
    fail_key(kCacheMemory,
             "{}: {} is not accepted: give auto, a share as in 25%, or a positive number of bytes, also with "
             "GiB, MiB, GB or MB, as in 6GiB",
             kCacheMemory, config::shown(text));
  }
  return *bytes;
}

int64_t cache_bytes(Environment& environment, const config::Config& options) {
  const std::optional<double> share = cache_share(options);
  if (!share) return given_bytes(options.get(kCacheMemory));
  const int64_t left = memory_left(environment, options);
  constexpr const char* kBudget = "memory_budget";
  if (left == 0 && options.get_text(kBudget)) {
    fail_key(
        kBudget,
        "{}: {} is too little: the process itself has {}, and nothing is left for the keys and values of "
        "generation: allow more",
        kBudget, options.get(kBudget), base::bytes_text(base::resident_bytes()));
  }
  return static_cast<int64_t>(*share * static_cast<double>(left));
}

}  // namespace

engine::GeneratorSpec generator_spec(Environment& environment, const config::Config& options) {
  engine::GeneratorSpec spec = cache_spec(options);
  spec.cache_bytes = cache_bytes(environment, options);
  spec.within_positions = true;
  return spec;
}

engine::GeneratorSpec training_generator_spec(Environment& environment, const config::Config& options) {
  engine::GeneratorSpec spec = generator_spec(environment, options);
  if (!options.method().generates) return spec;
  spec.bf16 = config::computes_in_bf16(options);
  spec.within_positions = false;  // long_prompts decides
  return spec;
}

engine::GeneratorSpec cache_spec(const config::Config& options) {
  engine::GeneratorSpec spec;
  spec.plain = config::plain_kernels(options);
  spec.sleeps = options.has("vllm_enable_sleep_mode") && options.get_bool("vllm_enable_sleep_mode");
  spec.prefix_cache = options.get_bool("prefix_cache");
  spec.int8_cache = options.get("kv_cache_dtype") == "int8";
  spec.weights = options.get_text("generation_dtype").value_or("");
  spec.copies_head = options.get_bool("generation_dtype_head") && !options.get_bool("cast_lm_head_to_fp32");
  return spec;
}

Requests open_requests(Environment& environment, engine::Model& model, const Tokenizer& tokenizer,
                       const engine::GeneratorSpec& spec) {
  engine::Generator* made = nullptr;
  engine::ErrorCapture error;
  error.check(
      environment.use_engine(Use::generate, [&] { return model.create_generator(spec, &made, error); }));
  return {environment, EngineObject<engine::Generator>(made), tokenizer, end_tokens(model, tokenizer.get())};
}

}  // namespace trl::run
