#include "serve/api/trl_logprobs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/text/base64.h"
#include "base/text/number.h"
#include "serve/api/completions.h"
#include "serve/api/prompt.h"
#include "serve/api/sinks.h"

namespace trl::serve {

namespace {

constexpr int64_t kDefaultCount = 100, kMostCount = 1000;  // of most likely ids
constexpr float kNone = -std::numeric_limits<float>::infinity();

struct Scores {
  std::vector<Ids> sequences;
  std::vector<size_t> begins;  // lengths of the prompts
  size_t count = 0;            // of most likely ids
  bool binary = false;
};

std::vector<Ids> read_sequences(Fields& fields, const ServedModel& model, const Limits& limits) {
  constexpr std::string_view kName = "sequences", kAccepted = "a list of lists of token ids";
  const base::Json* const all = fields.find(kName);
  if (all == nullptr) throw Refusal(400, fmt::format("{}: missing; give {}", kName, kAccepted), "sequences");
  if (!all->is_array()) refuse_value(kName, *all, kAccepted);
  for (const base::Json& one : *all)
    if (!one.is_array()) refuse_value(kName, one, kAccepted);
  if (all->empty()) return {};
  std::vector<Ids> sequences = read_prompts(all, kName, model, false, limits);
  const auto most = static_cast<size_t>(model.max_length().value_or(std::numeric_limits<int32_t>::max()));
  for (size_t i = 0; i < sequences.size(); ++i)
    if (sequences[i].size() > most)
      throw Refusal(400,
                    fmt::format("sequences[{}] has {} tokens; the model takes at most {} (max_model_len)", i,
                                sequences[i].size(), most),
                    "sequences");
  return sequences;
}

std::vector<size_t> read_lengths(Fields& fields, const std::vector<Ids>& sequences) {
  constexpr std::string_view kName = "prompt_lengths";
  const base::Json* const all = fields.find(kName);
  const std::string accepted =
      fmt::format("a list of {} integers, one for each of the sequences", sequences.size());
  if (all == nullptr)
    throw Refusal(400, fmt::format("{}: missing; give {}", kName, accepted), "prompt_lengths");
  if (!all->is_array() || all->size() != sequences.size()) refuse_value(kName, *all, accepted);
  std::vector<size_t> lengths;
  for (size_t i = 0; i < sequences.size(); ++i) {
    const base::Json& one = (*all)[i];
    if (!one.is_number_integer() || one < 0 || one > sequences[i].size())
      refuse_value(fmt::format("prompt_lengths[{}]", i), one,
                   fmt::format("0 to {}, the length of its sequence", sequences[i].size()));
    lengths.push_back(one.get<size_t>());
  }
  return lengths;
}

// Asks for one greedy token, which nobody gets: the prompt is what is computed.
Sampling sampling_of(size_t count, double temperature) {
  Sampling out;
  out.options = {{"generate.temperature", "0"},
                 {"generate.prompt_logprobs", std::to_string(count)},
                 {"generate.prompt_logprobs_temperature", base::format_double(temperature)}};
  out.greedy = true;
  return out;
}

// The most likely ids of a place with its own among them, by rank.
std::vector<RankedId> by_rank(std::vector<RankedId> ids) {
  std::ranges::stable_sort(ids, {}, &RankedId::rank);
  return ids;
}

// The fields of an answer in their order; those of the other form are null.
Answer answer_with(const base::Json& fields) {
  base::Json out = base::Json::object();
  for (const char* name : {"logprobs", "logprob_token_ids", "logprobs_b64", "token_ids_b64",
                           "actual_logprobs_b64", "actual_token_ids_b64", "shape", "completion_lengths"})
    out[name] = fields.contains(name) ? fields[name] : base::Json();
  return {200, json_text(out)};
}

Answer json_answer(const Scores& scores, const std::vector<Completion>& all) {
  base::Json values = base::Json::array(), ids = base::Json::array();
  for (size_t i = 0; i < all.size(); ++i) {
    base::Json& of_sequence = values.emplace_back(base::Json::array());
    base::Json& ids_of_sequence = ids.emplace_back(base::Json::array());
    for (size_t place = scores.begins[i]; place < all[i].prompt.size(); ++place) {
      base::Json& here = of_sequence.emplace_back(base::Json::array());
      base::Json& ids_here = ids_of_sequence.emplace_back(base::Json::array());
      for (const RankedId& one : by_rank(all[i].prompt[place])) {
        here.push_back(number_or_null(one.value));
        ids_here.push_back(one.id);
      }
    }
  }
  base::Json fields = base::Json::object();
  fields["logprobs"] = std::move(values);
  fields["logprob_token_ids"] = std::move(ids);
  return answer_with(fields);
}

template <class Value>
std::string base64(const std::vector<Value>& values) {
  return base::encode_base64({reinterpret_cast<const char*>(values.data()), values.size() * sizeof(Value)});
}

// Numbers of a place, those that are missing or unknown as -inf with the id 0.
struct Columns {
  explicit Columns(size_t size) : values(size, kNone), ids(size, 0) {}
  void set(size_t place, const RankedId& one) {
    values[place] = std::isnan(one.value) ? kNone : static_cast<float>(one.value);
    ids[place] = one.id;
  }
  std::vector<float> values;
  std::vector<int32_t> ids;
};

Answer binary_answer(const Scores& scores, const std::vector<Completion>& all) {
  std::vector<size_t> lengths;
  for (size_t i = 0; i < all.size(); ++i) lengths.push_back(scores.sequences[i].size() - scores.begins[i]);
  const size_t longest = lengths.empty() ? 0 : std::ranges::max(lengths);
  Columns best(all.size() * longest * scores.count), own(all.size() * longest);
  for (size_t i = 0; i < all.size(); ++i) {
    for (size_t place = 0; place < lengths[i]; ++place) {
      const std::vector<RankedId>& here = all[i].prompt[scores.begins[i] + place];
      if (here.empty()) continue;
      own.set(i * longest + place, here.front());
      const std::vector<RankedId> ranked = by_rank(here);
      for (size_t k = 0; k < std::min(scores.count, ranked.size()); ++k)
        best.set((i * longest + place) * scores.count + k, ranked[k]);
    }
  }
  base::Json fields = base::Json::object();
  fields["logprobs_b64"] = base64(best.values);
  fields["token_ids_b64"] = base64(best.ids);
  fields["actual_logprobs_b64"] = base64(own.values);
  fields["actual_token_ids_b64"] = base64(own.ids);
  fields["shape"] = {all.size(), longest, scores.count};
  fields["completion_lengths"] = lengths;
  return answer_with(fields);
}

Answer answer_of_scores(const Scores& scores, const std::vector<Completion>& all) {
  for (size_t i = 0; i < all.size(); ++i)
    if (all[i].prompt.size() != scores.sequences[i].size())
      throw Refusal(503, all[i].error.empty() ? "the sequences were not computed to their end; try again"
                                              : all[i].error);
  return scores.binary ? binary_answer(scores, all) : json_answer(scores, all);
}

}  // namespace

void trl_sequence_logprobs(Context& context, const std::shared_ptr<Exchange>& exchange) {
  const base::Json body = parse_body(std::exchange(exchange->request.body, {}));
  Fields fields(body);
  ServedModel& model = *context.models.front();
  Scores scores;
  scores.sequences = read_sequences(fields, model, context.options.limits);
  scores.begins = read_lengths(fields, scores.sequences);
  const int64_t count = fields.integer("top_logprobs", {0, kMostCount}).value_or(kDefaultCount);
  scores.count = static_cast<size_t>(count);
  const double temperature = fields.number("temperature", {.low = 0, .above = true}).value_or(1);
  const std::string form = fields.text("response_format").value_or("json");
  if (form != "json" && form != "binary") refuse_value("response_format", form, "\"json\" or \"binary\"");
  scores.binary = form == "binary";
  note_unread(context, fields);
  if (scores.sequences.empty()) return exchange->reply->send(answer_of_scores(scores, {}));
  const Sampling sampling = sampling_of(scores.count, temperature);
  JobRequest job{scores.sequences, sampling, 1, false};
  auto sink = std::make_shared<WholeSink>(
      context.texts, exchange->reply, sampling,
      [scores = std::move(scores)](const std::vector<Completion>& all) {
        return answer_of_scores(scores, all);
      },
      old_answer_of);
  submit(context, model, *exchange, std::move(job), std::move(sink));
}

}  // namespace trl::serve
