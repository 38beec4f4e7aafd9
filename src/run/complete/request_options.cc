#include "run/complete/request_options.h"

#include <cmath>
#include <limits>
#include <optional>

#include "base/error.h"
#include "base/text/number.h"
#include "config/generation/generation_kwargs.h"
#include "config/table/option_value.h"
#include "run/complete/speculation.h"

namespace trl::run {

namespace {

int32_t id_of(std::string_view key, std::string_view text) {
  const std::optional<int64_t> id = base::parse_int64(text);
  if (!id || *id < 0 || *id > std::numeric_limits<int32_t>::max())
    fail_key(key, "{}: {} is not a token id; give an integer >= 0", key, config::shown(text));
  return static_cast<int32_t>(*id);
}

std::vector<int32_t> ids_at(const config::Config& options, std::string_view key) {
  std::vector<int32_t> ids;
  for (const std::string& text : options.get_list(key)) ids.push_back(id_of(key, text));
  return ids;
}

std::vector<std::vector<int32_t>> bad_words_ids(const config::Config& options) {
  constexpr std::string_view kKey = "generate.bad_words_ids";
  std::vector<std::vector<int32_t>> words;
  for (const std::string& text : options.get_list(kKey)) {
    const bool deep = base::find_deeper(text, base::kMaxJsonDepth) != text.npos;
    const base::Json word = deep ? base::Json() : base::Json::parse(text, nullptr, false);
    if (!word.is_array() || word.empty())
      fail_key(kKey, "{}: {} is not a list of token ids; give lists, as in [[5], [7, 8]]", kKey,
               config::shown(text));
    std::vector<int32_t>& ids = words.emplace_back();
    for (const base::Json& id : word) ids.push_back(id_of(kKey, config::as_text(id)));
  }
  return words;
}

// As vLLM does: the word without a space before it, and with one, if that only makes another first token.
void add_bad_word(const Tokenizer& tokenizer, const std::string& text,
                  std::vector<std::vector<int32_t>>& words) {
  constexpr std::string_view kKey = "generate.bad_words";
  const std::string word = text.substr(std::min(text.find_first_not_of(' '), text.size()));
  const std::vector<int32_t> plain = tokenizer.get().encode(word, false);
  if (plain.empty()) fail_key(kKey, "{}: {} has no token; give a text", kKey, config::shown(text));
  words.push_back(plain);
  const std::vector<int32_t> spaced = tokenizer.get().encode(" " + word, false);
  if (spaced.size() == plain.size() && spaced[0] != plain[0]) words.push_back(spaced);
}

std::vector<std::pair<int32_t, float>> logit_bias(const config::Config& options) {
  constexpr std::string_view kKey = "generate.logit_bias";
  std::vector<std::pair<int32_t, float>> biases;
  for (const auto& [id, text] : options.get_pairs(kKey)) {
    const std::optional<double> bias = base::parse_double(text);
    if (!bias || !(std::abs(*bias) <= std::numeric_limits<float>::max()))
      fail_key(kKey, "{}: {}: {} is not accepted; give a number of float32", kKey, id, config::shown(text));
    biases.emplace_back(id_of(kKey, id), static_cast<float>(*bias));
  }
  return biases;
}

std::vector<std::string> stops_of(const config::Config& options) {
  constexpr std::string_view kKey = "generate.stop";
  std::vector<std::string> stops = options.get_list(kKey);
  for (const std::string& stop : stops)
    if (stop.empty()) fail_key(kKey, "{}: a text is empty; give at least one character", kKey);
  return stops;
}

engine::Sampling sampling_of(const config::Config& options, const Tokenizer& tokenizer) {
  engine::Sampling sampling;
  sampling.max_new_tokens = options.get_int("generate.max_new_tokens");
  sampling.min_new_tokens = options.get_int("generate.min_new_tokens");
  sampling.allowed_ids = ids_at(options, "generate.allowed_token_ids");
  sampling.suppress_tokens = ids_at(options, "generate.suppress_tokens");
  sampling.bad_words_ids = bad_words_ids(options);
  for (const std::string& word : options.get_list("generate.bad_words"))
    add_bad_word(tokenizer, word, sampling.bad_words_ids);
  sampling.logit_bias = logit_bias(options);
  sampling.repetition_penalty = options.get_double("generate.repetition_penalty");
  sampling.no_repeat_ngram_size = options.get_int("generate.no_repeat_ngram_size");
  sampling.frequency_penalty = options.get_double("generate.frequency_penalty");
  sampling.presence_penalty = options.get_double("generate.presence_penalty");
  sampling.temperature = options.get_double("generate.temperature");
  sampling.top_p = options.get_double("generate.top_p");
  sampling.top_k = options.get_int("generate.top_k");
  sampling.min_p = options.get_double("generate.min_p");
  sampling.typical_p = options.get_double("generate.typical_p");
  sampling.epsilon_cutoff = options.get_double("generate.epsilon_cutoff");
  sampling.eta_cutoff = options.get_double("generate.eta_cutoff");
  if (options.get("generate.sampling_order") == "vllm") sampling.order = engine::SamplingOrder::vllm;
  sampling.seed = static_cast<uint64_t>(options.get_int("generate.seed"));
  sampling.stop_ids = ids_at(options, "generate.stop_token_ids");
  sampling.adapter = options.get_text("generate.adapter").value_or("");
  const std::optional<int64_t> best = options.get_optional_int("generate.logprobs");
  sampling.log_probabilities = best.has_value();
  sampling.best = best.value_or(0);
  sampling.prompt_best = options.get_optional_int("generate.prompt_logprobs").value_or(-1);
  sampling.prompt_temperature = options.get_double("generate.prompt_logprobs_temperature");
  sampling.speculation = speculation_of(options);
  return sampling;
}

// Reports an error about a constraint under the key that the trainer has for it.
template <class Body>
RequestOptions with_trainer_names(const config::Config& options, const Body& body) {
  try {
    return config::with_entry_names(options, "generation_kwargs", body);
  } catch (const Error& error) {
    const bool by_regex = config::structures_of(options) == config::Structures::by_regex;
    if (!by_regex || error.key() != "generate.regex") throw;
    const std::string_view name = "vllm_structured_outputs_regex";
    throw error.with(fmt::format("{}{}", name, error.message().substr(error.key().size())), name);
  }
}

}  // namespace

int64_t completions_of(const config::Config& options) {
  constexpr std::string_view kKey = "generate.num_return_sequences";
  const int64_t count = options.get_int(kKey);
  if (count > 1 && options.get_double("generate.temperature") == 0)
    fail_key(kKey, "{}: {} needs generate.temperature above 0: greedy completions of one prompt are equal",
             kKey, count);
  return count;
}

RequestOptions request_options(const config::Config& options, const Tokenizer& tokenizer) {
  RequestOptions request;
  request.sampling = sampling_of(options, tokenizer);
  request.sampling.constraint = tokenizer.constraints().of(options);
  constexpr std::string_view kEnds = "generate.eos_token_id";
  const bool ends = !options.get_bool("generate.ignore_eos"), own = options.get(kEnds) == "null";
  request.own_ends = ends && own;
  if (ends && !own) request.sampling.eos_ids = ids_at(options, kEnds);
  request.stops = stops_of(options);
  request.stream = static_cast<uint64_t>(options.get_int("generate.stream"));
  request.keeps = options.get_bool("generate.keep");
  request.tells_usage = options.get_bool("generate.usage");
  request.takes_new = options.get("generate.take") == "new";
  return request;
}

RequestOptions trainer_request(const config::Config& options, const Tokenizer& tokenizer,
                               config::Completions which) {
  const config::Config generation = config::trainer_generation(options, which);
  RequestOptions request =
      with_trainer_names(options, [&] { return request_options(generation, tokenizer); });
  request.structured_outputs = structured_outputs_of(generation);
  request.count = generation.get_int("generate.num_return_sequences");
  request.sampling.log_probabilities = which == config::Completions::of_training;
  if (options.get("stop_token") != "eos") return request;
  const auto end = tokenizer.get().special_id(tokenizer.get().special().eos);
  if (!end) fail_key("stop_token", "stop_token: eos: the tokenizer has no end token; give stop_token_id");
  request.sampling.stop_ids.push_back(*end);
  return request;
}

}  // namespace trl::run
