#include "run/plan/expected_peak.h"

#include <algorithm>

#include "base/error.h"
#include "base/text/quantity.h"
#include "run/plan/memory_room.h"
#include "run/plan/plan.h"

namespace trl::run {

std::optional<base::Json> plan_where_possible(Environment& environment, const config::RunOptions& options,
                                              const RunSize& size, int64_t embedding_rows,
                                              const std::vector<int32_t>& new_tokens) try {
  return plan_of(environment, options, size, embedding_rows, new_tokens, false);
} catch (const Error& error) {
  if (error.key() == "use_cpu" || error.key() == "fused_kernels") return std::nullopt;
  throw;
}

namespace {

std::optional<RunSize> known_size(const config::RunOptions& options, Batches& rows, Batches* evaluation,
                                  bool all_read) {
  const auto& [config, training] = options;
  const bool bounded = config.get_optional_int("max_length").has_value();
  std::optional<RunSize> size;
  if (all_read || !bounded) size = size_of_rows(config, training, rows, evaluation);
  if (!size && bounded) size = largest_batch(config, training);
  return size;
}

// A run that cannot be computed either says so itself.
std::optional<base::Json> plan_or_nothing(Environment& environment, const config::RunOptions& options,
                                          const RunSize& size, int64_t embedding_rows,
                                          const std::vector<int32_t>& new_tokens) try {
  return plan_where_possible(environment, options, size, embedding_rows, new_tokens);
} catch (const Error& error) {
  if (error.status() == Status::cancelled || error.status() == Status::callback) throw;
  environment.log().write(base::LogLevel::debug, "plan",
                          fmt::format("no peak is predicted: {}", error.message()));
  return std::nullopt;
}

}  // namespace

ExpectedPeak expected_peak(Environment& environment, const config::RunOptions& options, Batches& rows,
                           Batches* evaluation, bool all_read, int64_t embedding_rows,
                           const std::vector<int32_t>& new_tokens) {
  std::optional<RunSize> size = known_size(options, rows, evaluation, all_read);
  if (!size) return {};
  size->batches = all_read ? rows.batches_per_epoch() : 0;
  const std::optional<base::Json> plan =
      plan_or_nothing(environment, options, *size, embedding_rows, new_tokens);
  if (!plan) return {};
  if (const base::Json& refused = plan->at("refused"); !refused.is_null())
    throw Error(Status::io, refused.at("message"), refused.at("key"));
  const engine::Prediction prediction = prediction_of(*plan);
  ExpectedPeak out = {prediction, *size, prediction.process};
  out.size.longest = plan->at("row_tokens");
  out.size.batches.reset();
  for (const base::Json& term : plan->at("terms")) {
    if (term.at("name") == "start of the process") out.least += term.at("most_bytes").get<int64_t>();
  }
  environment.log().write(
      base::LogLevel::info, "plan",
      fmt::format("a peak of {} is predicted for the process ({} of up to {} at a time)",
                  base::bytes_text(static_cast<double>(prediction.peak)),
                  base::quantity(out.size.rows, "row"), base::quantity(out.size.longest, "token")));
  if (const auto lacking = memory_lacking(prediction.peak)) environment.log().warning("plan", "{}", *lacking);
  return out;
}

ExpectedPeak peak_of_what_ran(Environment& environment, const config::RunOptions& options,
                              const ExpectedPeak& expected, const BatchSize& trained,
                              const BatchSize& evaluated, int64_t embedding_rows,
                              const std::vector<int32_t>& new_tokens) {
  const BatchSize planned = {expected.size.rows, expected.size.longest};
  if (expected.prediction.peak == 0 || trained.tokens() == 0 || trained.tokens() >= planned.tokens() ||
      options.config.get_bool("packing"))
    return expected;
  ExpectedPeak ran = expected;
  ran.size.rows = trained.rows;
  ran.size.longest = trained.longest;
  ran.size.eval_longest = evaluated.longest;
  ran.size.allowed = false;
  try {
    const std::optional<base::Json> plan =
        plan_where_possible(environment, options, ran.size, embedding_rows, new_tokens);
    if (!plan) return expected;
    ran.prediction = prediction_of(*plan);
  } catch (const Error&) {
    return expected;
  }
  // The process before the run, without the model that is open now.
  const int64_t before = expected.prediction.process;
  ran.prediction.peak = std::max(ran.least, ran.prediction.peak - ran.prediction.process + before);
  ran.prediction.process = before;
  return ran;
}

}  // namespace trl::run
