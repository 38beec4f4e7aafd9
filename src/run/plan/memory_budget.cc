#include "run/plan/memory_budget.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <string>

#include "base/memory/system_memory.h"
#include "base/text/number.h"
#include "config/sizes_and_paths.h"

namespace trl::run {

namespace {

using base::bytes_text;
using base::MemoryKind;

constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();

// Reads "MemAvailable:  123 kB" from a file of such lines, in bytes; -1: it has no such line.
int64_t kilobytes_of(const char* path, const std::string& name) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(name + ":")) continue;
    return std::strtoll(line.c_str() + name.size() + 1, nullptr, 10) * 1024;
  }
  return -1;
}

// Returns the bytes that the process may still take under the limits of its cgroup and of the cgroups above.
// kNoLimit: unlimited.
int64_t left_in_cgroup() { return base::cgroup_memory(base::own_cgroups(), base::kCgroupMounts); }

// Returns the free bytes of the machine, without swapping; kNoLimit: not known.
int64_t available_bytes() {
  const int64_t bytes = kilobytes_of("/proc/meminfo", "MemAvailable");
  return bytes >= 0 ? bytes : kNoLimit;
}

// Adds the bytes that the process has now; kNoLimit stays.
int64_t with_resident(int64_t free) {
  int64_t all = 0;
  return __builtin_add_overflow(free, base::resident_bytes(), &all) ? free : all;
}

int64_t automatic_budget() {
  constexpr double kOfAll = 0.92;  // leaves room for other processes and the cache of files
  const int64_t free = std::min(available_bytes(), left_in_cgroup());
  return with_resident(static_cast<int64_t>(kOfAll * static_cast<double>(free)));
}

MemoryKind kind_of(int32_t index) { return static_cast<MemoryKind>(index); }

// Returns the bytes of the process that the counter does not see.
int64_t outside(int64_t resident, const base::MemoryCounter& counter) {
  return std::max<int64_t>(0, resident - counter.now());
}

}  // namespace

std::optional<int64_t> memory_budget(Environment& environment, const config::Config& config) {
  constexpr const char* kKey = "memory_budget";
  const std::optional<std::string> text = config.get_text(kKey);
  if (!text) return std::nullopt;
  int64_t budget = *text == "auto" ? automatic_budget() : config::memory_size(config, kKey);
  const auto lower = [&](int64_t most, const char* whose) {
    if (most >= budget) return;
    environment.log().warning("plan", "memory_budget: {} allows {}, which counts in place of {}", whose,
                              bytes_text(most), bytes_text(budget));
    budget = most;
  };
  if (const int64_t limit = environment.memory().limit(); limit > 0)
    lower(limit, "runtime.host_memory_limit");
  lower(with_resident(left_in_cgroup()), "the cgroup of this process");
  return budget;
}

int64_t memory_left(Environment& environment, const config::Config& config) {
  int64_t left = std::min(available_bytes(), left_in_cgroup());
  const base::MemoryCounter& counter = environment.memory();
  if (counter.limit() > 0) left = std::min(left, counter.limit() - counter.now());
  if (const std::optional<int64_t> budget = memory_budget(environment, config))
    left = std::min(left, *budget - base::resident_bytes());
  return std::max<int64_t>(0, left);
}

telemetry::RunPlan::Room memory_room(int64_t peak) {
  telemetry::RunPlan::Room room;
  const int64_t machine = with_resident(available_bytes()), cgroup = with_resident(left_in_cgroup());
  if (machine != kNoLimit) room.machine_bytes = machine;
  if (cgroup != kNoLimit) room.cgroup_bytes = cgroup;
  if (peak > std::min(machine, cgroup)) {
    room.warning = fmt::format(
        "a peak of {} is predicted, and {} {} for this process: the run may be killed; memory_budget: auto "
        "finds a way that takes less, or says that there is none",
        bytes_text(peak), cgroup < machine ? "its cgroup leaves" : "the machine has",
        bytes_text(std::min(machine, cgroup)));
  }
  return room;
}

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
    in_use += fmt::format("{} {} (predicted {}), ", base::memory_kind_name(kind), bytes_text(measured),
                          bytes_text(predicted));
    if (measured > predicted)
      wrong += fmt::format("{}{}", wrong.empty() ? "" : ", ", base::memory_kind_name(kind));
  }
  const int64_t rest = outside(base::resident_bytes(), counter_);
  return Error(Status::out_of_memory,
               fmt::format("memory_budget: {} more of {} would pass {}. With them there are, in the whole "
                           "process: {}and {} beside these (predicted {}). {}",
                           bytes_text(bytes), base::memory_kind_name(asked), bytes_text(budget_), in_use,
                           bytes_text(rest), bytes_text(process_),
                           wrong.empty() ? "Each is within its prediction, but they overlap: the prediction "
                                           "is wrong about when they are alive"
                                         : "Above the prediction: " + wrong),
               "memory_budget");
}

}  // namespace trl::run
