#include "report/planned_sets.h"

#include <algorithm>
#include <array>

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

double plan_number(const base::Json& of, const char* key) {
  const auto found = of.find(key);
  return found != of.end() && found->is_number() ? found->get<double>() : -1;
}

std::vector<PlannedSet> planned_sets(const base::Json& plan) {
  std::vector<PlannedSet> sets = {{"as configured", &plan, {}}};
  const auto others = plan.find("alternatives");
  if (others == plan.end()) return sets;
  for (const base::Json& other : *others) {
    PlannedSet& set = sets.emplace_back(PlannedSet{other.at("options").get<std::string>(), &other, {}});
    const auto refused = other.find("refused");
    if (refused == other.end()) continue;
    set.plan = nullptr;
    set.refused = refused->at("message").get<std::string>();
  }
  return sets;
}

double highest_peak(const std::vector<PlannedSet>& sets) {
  double peak = 1;
  for (const PlannedSet& set : sets) {
    if (set.plan != nullptr) peak = std::max(peak, plan_number(*set.plan, "peak_bytes"));
  }
  return peak;
}

PlanTerms::PlanTerms(const std::vector<PlannedSet>& sets) {
  for (const PlannedSet& set : sets) {
    if (set.plan == nullptr) continue;
    for (const base::Json& term : set.plan->at("terms")) {
      const auto name = term.at("name").get<std::string>();
      if (std::find(names_.begin(), names_.end(), name) == names_.end()) names_.push_back(name);
    }
  }
  for (const std::string& name : names_) letters_ += free_letter(name, letters_);
}

size_t PlanTerms::index(const std::string& name) const {
  return static_cast<size_t>(std::find(names_.begin(), names_.end(), name) - names_.begin());
}

// Colours that can be told apart on a light and on a dark page, neighbours also by people who see fewer
// colours.
std::string_view PlanTerms::colour(size_t term) const {
  constexpr std::array<std::string_view, 12> kColours = {"#98a2b3", "#2f6fc4", "#7db3ea", "#12877b",
                                                         "#efa72b", "#8a63c9", "#dc5f3a", "#d584b4",
                                                         "#6d9f3a", "#a6763f", "#45b6c6", "#a83b57"};
  return kColours[term % kColours.size()];
}

double moment_place(const base::Json& timeline, size_t moment) {
  const auto last = static_cast<double>(std::max<size_t>(2, timeline.size()) - 1);
  return 0.5 * timeline[moment].at("at").get<double>() + 0.5 * static_cast<double>(moment) / last;
}

double bytes_at(const base::Json& timeline, size_t moment) {
  double sum = 0;
  for (const base::Json& bytes : timeline[moment].at("bytes")) sum += bytes.get<double>();
  return sum;
}

std::vector<PlanStage> plan_stages(const base::Json& plan) {
  std::vector<PlanStage> stages;
  const base::Json& timeline = plan.at("timeline");
  for (size_t i = 0; i < timeline.size(); ++i) {
    const auto name = timeline[i].at("stage").get<std::string>();
    auto stage =
        std::find_if(stages.begin(), stages.end(), [&](const PlanStage& s) { return s.name == name; });
    if (stage == stages.end()) stage = stages.insert(stages.end(), {name, i, 0});
    stage->bytes = std::max(stage->bytes, bytes_at(timeline, i));
  }
  return stages;
}

}  // namespace trl::report
