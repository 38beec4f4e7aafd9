#include "capi/limit_check.h"

#include "base/error.h"
#include "capi/expected_peak.h"
#include "capi/process.h"
#include "telemetry/plan_report.h"

namespace trl::capi {

namespace {

constexpr const char* kLimitKey = "runtime.host_memory_limit";

std::string in_words(int64_t bytes) { return telemetry::bytes_text(static_cast<double>(bytes)); }

}  // namespace

void check_memory_limit(const config::Config& config, const config::TrainingArguments& training,
                        Batches& rows, Batches* evaluation, int64_t embedding_rows,
                        const std::vector<int32_t>& new_tokens) {
  const int64_t limit = process().memory().limit();
  if (limit <= 0) return;
  const int64_t free = limit - process().memory().now();
  // That the counter would have at most; 0: what such a run takes is not planned.
  const auto bytes = [&](const RunSize& size) {
    const std::optional<base::Json> plan = plan_where_possible(config, size, embedding_rows, new_tokens);
    return plan ? plan->at("counted_bytes").get<int64_t>() : 0;
  };
  const bool bounded = config.get_optional_int("max_length").has_value();
  if (bounded && bytes(largest_batch(config, training)) <= free) return;
  const std::optional<RunSize> real = size_of_rows(config, training, rows, evaluation);
  if (!real && !bounded) return;
  const RunSize size = real ? *real : largest_batch(config, training);
  const int64_t most = bytes(size);
  if (most <= free) return;
  constexpr double kCertain = 0.9;  // a prediction may be above what is taken
  if (real) {
    RunSize alone = size;
    alone.rows = 1;
    if (const int64_t least = bytes(alone);
        kCertain * static_cast<double>(least) > static_cast<double>(free)) {
      throw Error(
          Status::out_of_memory,
          fmt::format("{}: {} is too little: the longest row of this run has {}, and a step with "
                      "it alone takes about {} ({} are in use already): give a larger limit, a smaller "
                      "max_length, or memory_budget, which finds a way that fits",
                      kLimitKey, in_words(limit), telemetry::count_text(size.longest, "token"),
                      in_words(least), in_words(limit - free)),
          kLimitKey);
    }
  }
  current_log()->warning("plan",
                         "{}: {} may be too little: the largest batch of this run ({} of up to {}) "
                         "takes about {}; memory_budget would find a way that fits",
                         kLimitKey, in_words(limit), telemetry::count_text(size.rows, "row"),
                         telemetry::count_text(size.longest, "token"), in_words(most));
}

}  // namespace trl::capi
