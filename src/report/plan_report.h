// Shows a predicted run as text and as a page, next to its other option sets: one letter and one colour for a
// term everywhere.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "telemetry/run_plan.h"

namespace trl::report {

using Sets = std::vector<telemetry::PlannedSet>;  // the configuration first

double highest_peak(const Sets& sets);

// The terms of all sets, in the order of their first appearance.
class PlanTerms {
 public:
  explicit PlanTerms(const Sets& sets);
  const std::vector<std::string>& names() const { return names_; }
  size_t index(const std::string& name) const;
  char letter(size_t term) const { return letters_[term]; }
  std::string_view colour(size_t term) const;

 private:
  std::vector<std::string> names_;
  std::string letters_;
};

// Returns the place of a moment of plan.timeline, from 0 to 1: half by the arithmetic done, half by the
// memory taken and given back, because opening has hardly any arithmetic.
double moment_place(const telemetry::RunPlan& plan, size_t moment);
double bytes_at(const telemetry::RunPlan& plan, size_t moment);  // of all terms

// The peak of each stage, in the order in which the stages begin. first: the moment.
struct PlanStage {
  std::string name;
  size_t first = 0;
  double bytes = 0;
};
std::vector<PlanStage> plan_stages(const telemetry::RunPlan& plan);

std::string text_timeline(const telemetry::RunPlan& plan, const PlanTerms& terms, int64_t columns);
std::string svg_timeline(const telemetry::RunPlan& plan, const PlanTerms& terms, double top, double width,
                         double height);

std::string plan_text(const Sets& sets);  // lines for a terminal
std::string plan_page(const Sets& sets);  // HTML that needs no other file

// Wraps words into lines of at most this many bytes after an indent; a longer word gets its own line.
std::string wrapped(const std::string& text, int64_t columns, const std::string& indent = {});

}  // namespace trl::report
