#include "run/plan/memory_cap.h"

#include "base/memory/resident.h"
#include "base/text/quantity.h"

namespace trl::run {

using base::MemoryKind;

namespace {

std::string text(int64_t bytes) { return base::bytes_text(static_cast<double>(bytes)); }

MemoryKind kind_of(int32_t index) { return static_cast<MemoryKind>(index); }

// Returns the bytes of the process that the counter does not see.
int64_t outside(int64_t resident, const base::MemoryCounter& counter) {
  return std::max<int64_t>(0, resident - counter.now());
}

}  // namespace

MemoryCap::MemoryCap(int64_t budget, const engine::Prediction& predicted, const base::MemoryCounter& counter)
    : counter_(counter),
      budget_(budget),
      process_(outside(predicted.process, counter)),
      counted_(std::max<int64_t>(1, budget - process_)),
      predicted_(predicted.kinds) {
  for (int32_t i = 0; i < base::kMemoryKinds; ++i)
    predicted_[static_cast<size_t>(i)] += counter.now(kind_of(i));
}

void MemoryCap::took(MemoryKind kind) noexcept {
  std::atomic<int64_t>& most = most_[static_cast<size_t>(kind)];
  const int64_t now = counter_.now(kind);
  for (int64_t seen = most.load(); now > seen && !most.compare_exchange_weak(seen, now);) {
  }
}

int64_t MemoryCap::most(MemoryKind kind) const noexcept { return most_[static_cast<size_t>(kind)].load(); }

Error MemoryCap::passed(MemoryKind asked, int64_t bytes) const {
  std::string in_use, wrong;
  for (int32_t i = 0; i < base::kMemoryKinds; ++i) {
    const MemoryKind kind = kind_of(i);
    const int64_t predicted = predicted_[static_cast<size_t>(i)];
    const int64_t measured = counter_.now(kind) + (kind == asked ? bytes : 0);
    in_use +=
        fmt::format("{} {} (predicted {}), ", base::memory_kind_name(kind), text(measured), text(predicted));
    if (measured > predicted)
      wrong += fmt::format("{}{}", wrong.empty() ? "" : ", ", base::memory_kind_name(kind));
  }
  const int64_t rest = outside(base::resident_bytes(), counter_);
  return Error(
      Status::out_of_memory,
      fmt::format("memory_budget: {} more of {} would pass {}. With them there are, in the whole process: "
                  "{}and {} beside these (predicted {}). {}",
                  text(bytes), base::memory_kind_name(asked), text(budget_), in_use, text(rest),
                  text(process_),
                  wrong.empty() ? "Each is within its prediction, but they overlap: the prediction is "
                                  "wrong about when they are alive"
                                : "Above the prediction: " + wrong),
      "memory_budget");
}

}  // namespace trl::run
