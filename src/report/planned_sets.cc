#include "report/plan_report.h"

#include <algorithm>
#include <array>
#include <numeric>

namespace trl::report {

namespace {

// Returns an unused letter for a term: its initial, else the capital, else any free one.
char free_letter(const std::string& name, const std::string& taken) {
  std::string wanted = name.substr(0, 1);
  if (!name.empty() && name[0] >= 'a' && name[0] <= 'z') wanted += static_cast<char>(name[0] - 'a' + 'A');
  wanted += "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
  const size_t found = wanted.find_first_not_of(taken);
  return found == std::string::npos ? '*' : wanted[found];
}

}  // namespace

double highest_peak(const Sets& sets) {
  int64_t peak = 1;
  for (const telemetry::PlannedSet& set : sets) peak = std::max(peak, set.plan.peak_bytes);
  return static_cast<double>(peak);
}

PlanTerms::PlanTerms(const Sets& sets) {
  for (const telemetry::PlannedSet& set : sets) {
    for (const auto& term : set.plan.terms)
      if (std::ranges::find(names_, term.name) == names_.end()) names_.push_back(term.name);
  }
  for (const std::string& name : names_) letters_ += free_letter(name, letters_);
}

size_t PlanTerms::index(const std::string& name) const {
  return static_cast<size_t>(std::ranges::find(names_, name) - names_.begin());
}

// Colours that can be told apart on a light and on a dark page, neighbours also by people who see fewer
// colours.
std::string_view PlanTerms::colour(size_t term) const {
  constexpr std::array<std::string_view, 12> kColours = {"#98a2b3", "#2f6fc4", "#7db3ea", "#12877b",
                                                         "#efa72b", "#8a63c9", "#dc5f3a", "#d584b4",
                                                         "#6d9f3a", "#a6763f", "#45b6c6", "#a83b57"};
  return kColours[term % kColours.size()];
}

double moment_place(const telemetry::RunPlan& plan, size_t moment) {
  const auto last = static_cast<double>(std::max<size_t>(2, plan.timeline.size()) - 1);
  return 0.5 * plan.timeline[moment].at + 0.5 * static_cast<double>(moment) / last;
}

double bytes_at(const telemetry::RunPlan& plan, size_t moment) {
  const std::vector<int64_t>& bytes = plan.timeline[moment].bytes;
  return std::accumulate(bytes.begin(), bytes.end(), 0.0);
}

std::vector<PlanStage> plan_stages(const telemetry::RunPlan& plan) {
  std::vector<PlanStage> stages;
  for (size_t i = 0; i < plan.timeline.size(); ++i) {
    const std::string& name = plan.timeline[i].stage;
    auto stage = std::ranges::find_if(stages, [&](const PlanStage& s) { return s.name == name; });
    if (stage == stages.end()) stage = stages.insert(stages.end(), {name, i, 0});
    stage->bytes = std::max(stage->bytes, bytes_at(plan, i));
  }
  return stages;
}

}  // namespace trl::report
