#include "entry/plan/plan_timeline.h"

#include <algorithm>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "entry/plan/generation_plan.h"

namespace trl::entry {

namespace {

// Returns the stage of each event. Events before the first forward belong to opening.
std::vector<std::string_view> stages_of(std::span<const tensor::Rehearsal::Event> events) {
  std::vector<std::string_view> stages;
  bool forward = false;
  for (const auto& event : events) {
    forward = forward || event.stage == "forward" || event.stage == "reference";
    stages.push_back(forward ? with_generation(event.stage) : "open");
  }
  return stages;
}

// Returns the place of the first event of each stage.
std::vector<int64_t> first_of_each(const std::vector<std::string_view>& stages) {
  std::vector<int64_t> first;
  std::set<std::string_view> seen;
  for (size_t i = 0; i < stages.size(); ++i)
    if (seen.insert(stages[i]).second) first.push_back(static_cast<int64_t>(i));
  return first;
}

}  // namespace

memory::Plan counted_memory(const tensor::Rehearsal& rehearsal, int64_t events,
                            std::span<const OfServer> servers) {
  std::vector<memory::Holding> kinds;
  for (const OfServer& one : servers)
    if (one.kind)
      kinds.push_back({std::string(base::memory_kind_name(*one.kind)), one.bytes, one.from, events});
  for (const tensor::Taken& taken : rehearsal.taken())
    if (taken.stage != tensor::kMappedPages)
      kinds.push_back({std::string(base::memory_kind_name(taken.kind)), taken.bytes, taken.from, taken.to});
  return memory::plan(kinds, events, 1);
}

void add_timeline(telemetry::RunPlan& plan, std::span<const memory::Holding> holdings,
                  std::span<const tensor::Rehearsal::Event> events) {
  constexpr int64_t kMoments = 400;
  const std::vector<std::string_view> stages = stages_of(events);
  const memory::Plan memory = memory::plan(holdings, std::ssize(events), kMoments, first_of_each(stages));
  plan.peak_bytes = memory.peak;
  plan.terms = {{"process"}};
  for (const memory::Term& term : memory.terms) plan.terms.push_back({term.name, term.at_peak, term.most});
  const double whole = events.empty() ? 1 : std::max(events.back().clock, 1.0);
  for (const auto& moment : memory.moments) {
    const auto event = static_cast<size_t>(moment.event);
    std::vector<int64_t> bytes = {0};
    bytes.insert(bytes.end(), moment.bytes.begin(), moment.bytes.end());
    plan.timeline.push_back({events[event].clock / whole, std::string(stages[event]), std::move(bytes)});
  }
}

}  // namespace trl::entry
