#include "run/plan/memory_budget.h"

#include "base/text/quantity.h"
#include "config/byte_size.h"
#include "run/plan/memory_room.h"

namespace trl::run {

namespace {

constexpr const char* kBudgetKey = "memory_budget";

int64_t automatic() {
  constexpr double kOfAll = 0.92;  // leaves room for other processes and the cache of files
  const int64_t free = std::min(available_bytes(), left_in_cgroup());
  return with_resident(static_cast<int64_t>(kOfAll * static_cast<double>(free)));
}

}  // namespace

std::optional<int64_t> memory_budget(Environment& environment, const config::Config& config) {
  const std::optional<std::string> text = config.get_text(kBudgetKey);
  if (!text) return std::nullopt;
  int64_t budget = *text == "auto" ? automatic() : config::memory_size(config, kBudgetKey);
  const auto lower = [&](int64_t most, const char* whose) {
    if (most >= budget) return;
    const auto in_words = [](int64_t bytes) { return base::bytes_text(static_cast<double>(bytes)); };
    environment.log().warning("plan", "memory_budget: {} allows {}, which counts in place of {}", whose,
                              in_words(most), in_words(budget));
    budget = most;
  };
  if (const int64_t limit = environment.memory().limit(); limit > 0)
    lower(limit, "runtime.host_memory_limit");
  lower(with_resident(left_in_cgroup()), "the cgroup of this process");
  return budget;
}

}  // namespace trl::run
