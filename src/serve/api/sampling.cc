#include "serve/api/sampling.h"

#include <fmt/format.h>

#include <random>

#include "base/text/number.h"

namespace trl::serve {

namespace {

constexpr size_t kTextBytes = 4096;  // of a stop text or a bad word
constexpr size_t kBiases = 1024, kBadWords = 1024, kStopIds = 1024;
constexpr size_t kAllowedIds = size_t{1} << 18;  // about as many as the largest vocabularies have
constexpr int64_t kStreams = int64_t{1} << 52;   // of generate.stream

void check_count(std::string_view field, size_t count, size_t most, std::string_view of) {
  if (count > most)
    throw Refusal(400, fmt::format("{}: {} {}; give at most {}", field, count, of, most), std::string(field));
}

void check_texts(std::string_view field, const std::vector<std::string>& texts, size_t most) {
  check_count(field, texts.size(), most, "texts");
  for (const std::string& text : texts) {
    if (text.empty())
      throw Refusal(400, fmt::format("{}: a text is empty; give at least one character", field),
                    std::string(field));
    if (text.size() > kTextBytes)
      throw Refusal(400,
                    fmt::format("{}: a text has {} bytes; give at most {}", field, text.size(), kTextBytes),
                    std::string(field));
  }
}

// Sets an option if the request has the field.
class Options {
 public:
  Options(Fields& fields, std::map<std::string, std::string>& options) : fields_(fields), options_(options) {}
  void integer(std::string_view field, const char* option, Range range) {
    if (const auto value = fields_.integer(field, range)) set(option, std::to_string(*value));
  }
  void number(std::string_view field, const char* option, Span span) {
    if (const auto value = fields_.number(field, span)) set(option, base::format_double(*value));
  }
  void boolean(std::string_view field, const char* option) {
    if (const auto value = fields_.boolean(field)) set(option, *value ? "true" : "false");
  }
  void ids(std::string_view field, const char* option, size_t most) {
    const auto value = fields_.ids(field);
    if (!value) return;
    check_count(field, value->size(), most, "ids");
    set(option, base::Json(*value).dump());
  }
  void set(const char* option, std::string value) {
    options_[std::string("generate.") + option] = std::move(value);
  }

 private:
  Fields& fields_;
  std::map<std::string, std::string>& options_;
};

// Returns a seed for each request that gives none.
uint64_t any_seed() {
  std::random_device device;
  return (uint64_t{device()} << 31) ^ device();
}

void read_seed(Fields& fields, Options& options, bool model_has_one) {
  const auto ours = fields.integer("trl_seed", {0});
  const auto given = fields.integer("seed");
  constexpr uint64_t kMask = ~uint64_t{0} >> 1;
  if (ours)
    options.set("seed", std::to_string(*ours));
  else if (given)
    options.set("seed", std::to_string(static_cast<uint64_t>(*given) & kMask));
  else if (!model_has_one)
    options.set("seed", std::to_string(any_seed() & kMask));
}

void read_stops(Fields& fields, Options& options, const Limits& limits) {
  const auto stops = fields.texts("stop");
  if (!stops || stops->empty()) return;
  check_texts("stop", *stops, static_cast<size_t>(limits.max_stops));
  options.set("stop", json_text(base::Json(*stops)));
}

void read_bias(Fields& fields, Options& options) {
  const base::Json* const bias = fields.object("logit_bias");
  if (bias == nullptr || bias->empty()) return;
  check_count("logit_bias", bias->size(), kBiases, "entries");
  for (const auto& [id, value] : bias->items())
    if (!value.is_number()) refuse_value("logit_bias", value, "numbers by token id");
  options.set("logit_bias", json_text(*bias));
}

// Puts a form in place of the model's own.
void read_form_into(Fields& fields, Sampling& out) {
  out.form = read_form(fields);
  if (!out.form) return;
  for (const char* option : kFormOptions) out.options.erase(option);
  out.options[out.form->option] = out.form->value;
}

// Fields that this version does not have, and what is accepted of them.
void refuse_others(Fields& fields, int64_t n) {
  const auto here = "this version does not have it";
  for (const char* name : {"use_beam_search", "include_stop_str_in_output", "watermarking"})
    fields.refuse(name, false, here);
  fields.refuse("best_of", n, "leave it out, or give what n is: ask for n completions and choose the best");
  fields.refuse("length_penalty", 1.0, "it is for beams");
  fields.refuse("early_stopping", false, "it is for beams");
  fields.refuse("skip_special_tokens", true, "texts have no special tokens; ask for return_token_ids");
  fields.refuse("spaces_between_special_tokens", true, "texts have no special tokens");
  fields.refuse("priority", 0, "requests are taken by turns of clients");
  for (const char* name : {"truncate_prompt_tokens", "prompt_embeds", "logprob_token_ids",
                           "repetition_detection", "thinking_token_budget", "kv_transfer_params",
                           "ec_transfer_params", "vllm_xargs", "logits_processors"})
    fields.refuse(name, nullptr, here);
  fields.refuse("cache_salt", nullptr, "keys of equal prompts are shared; run a server for each client");
  fields.refuse("detokenize", true, "answers have their text");
  fields.ignore({"user", "request_id"});
}

}  // namespace

Sampling read_sampling(Fields& fields, const Limits& limits, const ModelOptions& model) {
  Sampling out;
  out.model = fields.text("model");
  out.options = model.generation;
  Options options(fields, out.options);
  const auto has = [&](const char* option) {
    return model.generation.contains(std::string("generate.") + option);
  };
  if (!has("sampling_order")) options.set("sampling_order", "vllm");
  if (!has("temperature")) options.set("temperature", "1");
  options.number("temperature", "temperature", {.low = 0});
  options.number("top_p", "top_p", {.low = 0, .high = 1, .above = true});
  if (const auto top_k = fields.integer("top_k", {-1}))
    options.set("top_k", std::to_string(std::max<int64_t>(0, *top_k)));
  options.number("min_p", "min_p", {.low = 0, .high = 1});
  options.number("repetition_penalty", "repetition_penalty", {.low = 0, .above = true});
  options.number("frequency_penalty", "frequency_penalty", {.low = -2, .high = 2});
  options.number("presence_penalty", "presence_penalty", {.low = -2, .high = 2});
  options.integer("min_tokens", "min_new_tokens", {0});
  options.boolean("ignore_eos", "ignore_eos");
  options.ids("stop_token_ids", "stop_token_ids", kStopIds);
  if (const base::Json* const allowed = fields.find("allowed_token_ids"); allowed && allowed->empty())
    refuse_value("allowed_token_ids", *allowed, "one token id at least");
  options.ids("allowed_token_ids", "allowed_token_ids", kAllowedIds);
  if (const auto words = fields.texts("bad_words")) {
    check_texts("bad_words", *words, kBadWords);
    options.set("bad_words", json_text(base::Json(*words)));
  }
  read_stops(fields, options, limits);
  read_bias(fields, options);
  read_seed(fields, options, has("seed"));
  read_form_into(fields, out);
  if (const base::Json* const speculation = fields.object("speculative_config"))
    options.set("speculative_config", json_text(*speculation));
  out.n = fields.integer("n", {1, limits.max_n}).value_or(1);
  refuse_others(fields, out.n);
  out.greedy = base::parse_double(out.options["generate.temperature"]).value_or(1) == 0;
  out.stream = fields.integer("trl_stream", {0, kStreams - limits.max_prompts * limits.max_n}).value_or(0);
  out.whole_logprobs = fields.boolean("trl_whole_logprobs").value_or(false);
  out.token_ids = fields.boolean("return_token_ids").value_or(false);
  out.tokens_as_ids = fields.boolean("return_tokens_as_token_ids").value_or(false);
  return out;
}

int64_t most_likely(std::string_view name, int64_t count, const Limits& limits) {
  if (count < -1 || count > limits.max_logprobs)
    throw Refusal(400,
                  fmt::format("{}: {} is not accepted; give at most {} (serve.max_logprobs), or -1 for that",
                              name, count, limits.max_logprobs),
                  std::string(name));
  return count < 0 ? limits.max_logprobs : count;
}

void set_logprobs(Sampling& sampling, std::string_view name, std::optional<int64_t> count,
                  const Limits& limits) {
  if (!count) return;
  sampling.logprobs = most_likely(name, *count, limits);
  sampling.options["generate.logprobs"] = std::to_string(*sampling.logprobs);
}

}  // namespace trl::serve
