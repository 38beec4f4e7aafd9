#include "capi/expected_peak.h"

#include "base/error.h"
#include "capi/process.h"
#include "capi/run_plan.h"
#include "telemetry/plan_report.h"

namespace trl::capi {

std::optional<base::Json> plan_where_possible(const config::Config& config, const RunSize& size,
                                              int64_t embedding_rows,
                                              const std::vector<int32_t>& new_tokens) try {
  return plan_of(config, size, embedding_rows, new_tokens, false);
} catch (const Error& error) {
  if (error.key() == "use_cpu" || error.key() == "fused_kernels") return std::nullopt;
  throw;
}

namespace {

std::optional<RunSize> known_size(const config::Config& config, const config::TrainingArguments& training,
                                  Batches& rows, Batches* evaluation, bool all_read) {
  const bool bounded = config.get_optional_int("max_length").has_value();
  std::optional<RunSize> size;
  if (all_read || !bounded) size = size_of_rows(config, training, rows, evaluation);
  if (!size && bounded) size = largest_batch(config, training);
  return size;
}

}  // namespace

engine::Prediction expected_peak(const config::Config& config, const config::TrainingArguments& training,
                                 Batches& rows, Batches* evaluation, bool all_read, int64_t embedding_rows,
                                 const std::vector<int32_t>& new_tokens) {
  const std::optional<RunSize> size = known_size(config, training, rows, evaluation, all_read);
  if (!size) return {};
  try {
    const std::optional<base::Json> plan = plan_where_possible(config, *size, embedding_rows, new_tokens);
    if (!plan) return {};
    const engine::Prediction prediction = prediction_of(*plan);
    current_log()->write(
        base::LogLevel::info, "plan",
        fmt::format("a peak of {} is predicted for the process ({} {} of up to {} tokens at a time)",
                    telemetry::bytes_text(static_cast<double>(prediction.peak)), size->rows,
                    size->rows == 1 ? "row" : "rows", size->longest));
    return prediction;
  } catch (const Error& error) {  // a run that cannot be computed either says so itself
    if (error.status() == Status::cancelled || error.status() == Status::callback) throw;
    current_log()->write(base::LogLevel::debug, "plan",
                         fmt::format("no peak is predicted: {}", error.message()));
    return {};
  }
}

}  // namespace trl::capi
