#include "run/plan/limit_check.h"

#include "base/error.h"
#include "base/text/quantity.h"
#include "run/plan/expected_peak.h"

namespace trl::run {

namespace {

constexpr const char* kLimitKey = "runtime.host_memory_limit";

std::string in_words(int64_t bytes) { return base::bytes_text(static_cast<double>(bytes)); }

int64_t free_bytes(base::MemoryCounter& memory) { return memory.limit() - memory.now(); }

// Returns the predicted peak of the counter; 0: such a run is not planned.
int64_t taken_bytes(Environment& environment, const config::RunOptions& options, const RunSize& size,
                    int64_t embedding_rows, const std::vector<int32_t>& new_tokens) {
  const std::optional<base::Json> plan =
      plan_where_possible(environment, options, size, embedding_rows, new_tokens);
  return plan ? plan->at("counted_bytes").get<int64_t>() : 0;
}

}  // namespace

void check_memory_limit(Environment& environment, const config::RunOptions& options, const RunSize& size,
                        int64_t embedding_rows, const std::vector<int32_t>& new_tokens) {
  const int64_t limit = environment.memory().limit();
  if (limit <= 0) return;
  const int64_t free = free_bytes(environment.memory()),
                most = taken_bytes(environment, options, size, embedding_rows, new_tokens);
  if (most <= free) return;
  constexpr double kCertain = 0.9;  // a prediction may be above the bytes that are taken
  if (!size.allowed) {
    RunSize alone = size;
    alone.rows = 1;
    if (const int64_t least = taken_bytes(environment, options, alone, embedding_rows, new_tokens);
        kCertain * static_cast<double>(least) > static_cast<double>(free)) {
      throw Error(
          Status::out_of_memory,
          fmt::format("{}: {} is too little: the longest row of this run has {}, and a step with "
                      "it alone takes about {} ({} are in use already): give a larger limit, a smaller "
                      "max_length, or memory_budget, which finds a way that fits",
                      kLimitKey, in_words(limit), base::quantity(size.longest, "token"), in_words(least),
                      in_words(limit - free)),
          kLimitKey);
    }
  }
  environment.log().warning("plan",
                            "{}: {} may be too little: the largest batch of this run ({} of up to {}) "
                            "takes about {}; memory_budget would find a way that fits",
                            kLimitKey, in_words(limit), base::quantity(size.rows, "row"),
                            base::quantity(size.longest, "token"), in_words(most));
}

void check_memory_limit(Environment& environment, const config::RunOptions& options, Batches& rows,
                        Batches* evaluation, int64_t embedding_rows, const std::vector<int32_t>& new_tokens) {
  if (environment.memory().limit() <= 0) return;
  const auto& [config, training] = options;
  const bool bounded = config.get_optional_int("max_length").has_value();
  if (bounded && taken_bytes(environment, options, largest_batch(config, training), embedding_rows,
                             new_tokens) <= free_bytes(environment.memory()))
    return;  // without waiting for the rows
  const std::optional<RunSize> real = size_of_rows(config, training, rows, evaluation);
  if (!real && !bounded) return;
  check_memory_limit(environment, options, real ? *real : largest_batch(config, training), embedding_rows,
                     new_tokens);
}

}  // namespace trl::run
