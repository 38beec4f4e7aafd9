// The option sets of a plan, shared by text and pictures: each with its name, and one letter and one colour
// for a term everywhere.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "base/json/json.h"

namespace trl::report {

struct PlannedSet {
  std::string name;                  // "optim: adamw_8bit"; "as configured"
  const base::Json* plan = nullptr;  // null: refused
  std::string refused;               // the reason
};
// Returns the sets, the configuration first. They refer to plan.
std::vector<PlannedSet> planned_sets(const base::Json& plan);
double highest_peak(const std::vector<PlannedSet>& sets);

// The terms of all sets, in the order of their first appearance.
class PlanTerms {
 public:
  explicit PlanTerms(const std::vector<PlannedSet>& sets);
  const std::vector<std::string>& names() const { return names_; }
  size_t index(const std::string& name) const;
  char letter(size_t term) const { return letters_[term]; }
  std::string_view colour(size_t term) const;

 private:
  std::vector<std::string> names_;
  std::string letters_;
};

double plan_number(const base::Json& of, const char* key);  // -1: it is absent

// Returns the place of a moment of plan.timeline, from 0 to 1: half by the arithmetic done, half by the
// memory taken and given back, because opening has hardly any arithmetic.
double moment_place(const base::Json& timeline, size_t moment);

// The peak of each stage, in the order in which the stages begin. first: the moment.
struct PlanStage {
  std::string name;
  size_t first = 0;
  double bytes = 0;
};
std::vector<PlanStage> plan_stages(const base::Json& plan);
double bytes_at(const base::Json& timeline, size_t moment);  // of all terms

std::string text_timeline(const base::Json& plan, const PlanTerms& terms, int64_t columns);
std::string svg_timeline(const base::Json& plan, const PlanTerms& terms, double top, double width,
                         double height);

}  // namespace trl::report
