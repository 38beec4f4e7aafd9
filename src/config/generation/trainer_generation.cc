#include "config/generation/trainer_generation.h"

#include "base/error.h"
#include "base/text/number.h"
#include "config/generation/generation_kwargs.h"

namespace trl::config {

namespace {

constexpr std::string_view kTemperature = "generate.temperature",
                           kStructuresRegex = "vllm_structured_outputs_regex";

void take_length(const Config& config, Config& out) {
  const std::string_view key = length_key(config);
  const std::optional<std::string> length = config.get_text(key);
  if (!length) fail_key(key, "{}: null is refused: completions need an end; give an integer > 0", key);
  out.set("generate.max_new_tokens", *length);
}

// Copies a key of the method, if it has it, unless its value is null.
void take(const Config& config, std::string_view from, Config& out, std::string_view to) {
  if (!config.has(from)) return;
  if (const std::optional<std::string> value = config.get_text(from)) out.set(to, *value);
}

void take_sampling(const Config& config, Config& out) {
  out.set(kTemperature, base::format_double(trainer_temperature(config)));
  for (const char* name : {"top_p", "top_k", "min_p", "repetition_penalty"})
    take(config, name, out, std::string("generate.") + name);
  if (config.has("use_vllm") && config.get_bool("use_vllm")) out.set("generate.sampling_order", "vllm");
}

void take_structures(const Config& config, Config& out) {
  if (structures_of(config) != Structures::by_regex) return;
  for (const char* const name : {"generate.choice", "generate.json_schema"}) out.unset(name);
  take(config, kStructuresRegex, out, "generate.regex");
}

// A response ends only at its stop token: without one it has its full length. The id of the tokenizer's end
// token is not known here.
void take_stops(const Config& config, Config& out) {
  if (!config.has("stop_token")) return;
  out.set("generate.ignore_eos", "true");
  if (const auto id = config.get_text("stop_token_id")) out.set("generate.stop_token_ids", "[" + *id + "]");
}

void refuse_equal(const Config& config) {
  constexpr std::string_view kKey = "eval_temperature";
  if (!config.has(kKey) || config.get_optional_double(kKey) != 0) return;
  const int64_t count = completions_of_prompt(config, Completions::of_evaluation);
  if (count > 1)
    fail_key(
        kKey,
        "{}: 0 makes the {} completions of each prompt of an evaluation equal: give num_generations_eval "
        "1, or a number above 0",
        kKey, count);
}

void take_evaluation(const Config& config, Config& out) {
  refuse_equal(config);
  for (const char* name : {"temperature", "top_p", "top_k"})
    take(config, std::string("eval_") + name, out, std::string("generate.") + name);
  // the samples of TRL's PPOTrainer.generate_completions
  if (config.has("num_sample_generations")) out.set(kTemperature, base::format_double(0.01 + 1e-7));
}

}  // namespace

std::string_view length_key(const Config& config) {
  for (const std::string_view key : {"max_completion_length", "max_new_tokens"})
    if (config.has(key)) return key;
  return "response_length";
}

int64_t completions_of_prompt(const Config& config, Completions which) {
  if (!config.has("num_generations")) return config.method().sequences;
  const std::optional<int64_t> evaluated = config.get_optional_int("num_generations_eval");
  if (which == Completions::of_evaluation && evaluated) return *evaluated;
  return config.get_int("num_generations");
}

Structures structures_of(const Config& config) {
  const bool vllm = config.has("use_vllm") && config.get_bool("use_vllm");
  if (vllm && config.has(kStructuresRegex) && config.get_text(kStructuresRegex)) return Structures::by_regex;
  return has_structured_outputs(config, "generation_kwargs") ? Structures::by_kwargs : Structures::none;
}

double trainer_temperature(const Config& config) {
  const double temperature = config.get_double("temperature");
  return config.has("response_length") ? temperature + 1e-7 : temperature;  // as TRL's PPOTrainer
}

Config trainer_generation(const Config& config, Completions which) {
  Config out = config;
  for (const Option& option : options())
    if (option.name.starts_with("generate.")) out.unset(option.name);
  take_length(config, out);
  out.set("generate.num_return_sequences", std::to_string(completions_of_prompt(config, which)));
  out.set("generate.seed", config.get("seed"));
  take_sampling(config, out);
  take_stops(config, out);
  apply_generation_kwargs(out,
                          {"generation_kwargs", config.has("num_generations")
                                                    ? "num_generations is the number of completions"
                                                    : "the trainer determines the number of completions"});
  take_structures(config, out);
  if (which == Completions::of_evaluation) take_evaluation(config, out);
  return out;
}

}  // namespace trl::config
