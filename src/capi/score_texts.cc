// trl_model_score.
#include "base/json/json.h"
#include "capi/config_handle.h"
#include "capi/guard.h"
#include "capi/model_handle.h"
#include "engine/error_capture.h"
#include "run/complete/complete.h"

namespace trl::capi {

namespace {

std::vector<int32_t> scored_ids(const run::Tokenizer& tokenizer, std::string_view text, int32_t form,
                                const std::string& name) {
  if (form == TRL_TEXT_AS_IS) return run::text_ids(tokenizer, text);
  if (form == TRL_TEXT_CONVERSATION) {
    base::Json json = base::parse_json(text, name);
    if (json.is_array()) json = base::Json{{"messages", std::move(json)}};
    return tokenizer.get().encode(tokenizer.apply_chat_template(json), false);
  }
  if (form != TRL_TEXT_ANSWER)
    fail(Status::invalid_argument,
         "form is {}; accepted: TRL_TEXT_ANSWER, TRL_TEXT_CONVERSATION, TRL_TEXT_AS_IS", form);
  const std::optional<std::string>& eos = tokenizer.get().special().eos;
  const bool ends = !eos || text.ends_with(*eos);
  return tokenizer.get().encode(ends ? std::string(text) : std::string(text) + *eos, true);
}

std::vector<float> score(Model& model, const std::vector<std::vector<int32_t>>& ids,
                         const config::Config& options) {
  const std::vector<std::span<const int32_t>> spans(ids.begin(), ids.end());
  const engine::ScoreSpec spec{spans, options.get_optional_bool("bf16").value_or(false),
                               options.get_int("per_device_eval_batch_size")};
  std::vector<float> scores(ids.size());
  const std::unique_lock lock(model.in_use(), std::try_to_lock);
  if (!lock) fail(Status::busy, "model is in use on another thread");
  engine::ErrorCapture error;
  error.check(
      process().use_engine(Use::evaluate, [&] { return model.get().score(spec, scores.data(), error); }));
  return scores;
}

}  // namespace

}  // namespace trl::capi

using namespace trl::capi;

trl_status trl_model_score(trl_model* model, const char* const* texts, const size_t* lengths, size_t count,
                           int32_t form, const trl_config* options, float* scores,
                           trl_error** error) noexcept {
  return guard(error, [&] {
    const auto shared = get(model, "model");
    if (count > 0) need(texts, "texts");
    if (count > 0) need(scores, "scores");
    const RuntimeScope scope(*shared->runtime());
    std::vector<std::vector<int32_t>> ids;
    for (size_t i = 0; i < count; ++i) {
      const std::string name = fmt::format("texts[{}]", i);
      need(texts[i], name);
      const size_t size = lengths != nullptr ? lengths[i] : std::char_traits<char>::length(texts[i]);
      ids.push_back(scored_ids(*shared->tokenizer(), utf8(texts[i], size, name), form, name));
      if (ids.back().empty()) trl::fail(trl::Status::invalid_argument, "{} has no token to score", name);
    }
    const std::vector<float> all = score(*shared, ids, options_of(options));
    std::copy(all.begin(), all.end(), scores);
  });
}
