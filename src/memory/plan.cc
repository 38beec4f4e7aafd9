#include "memory/plan.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace trl::memory {

namespace {

struct Change {
  size_t term;
  int64_t bytes;
};

// The changes in bytes at each event.
class Changes {
 public:
  Changes(std::span<const Holding> holdings, int64_t events) : at_(static_cast<size_t>(events)) {
    for (const Holding& holding : holdings) {
      const size_t term = number(holding.term);
      add(holding.from, {term, holding.bytes});
      add(holding.to, {term, -holding.bytes});
    }
  }
  std::vector<Term> terms() const { return terms_; }
  // Calls body(event, bytes of each term, their sum) after each event
  template <typename Body>
  void walk(const Body& body) const {
    std::vector<int64_t> bytes(terms_.size());
    int64_t sum = 0;
    for (size_t event = 0; event < at_.size(); ++event) {
      for (const Change& change : at_[event]) {
        bytes[change.term] += change.bytes;
        sum += change.bytes;
      }
      body(static_cast<int64_t>(event), bytes, sum);
    }
  }

 private:
  size_t number(const std::string& name) {
    const auto [found, is_new] = numbers_.emplace(name, terms_.size());
    if (is_new) terms_.push_back({name});
    return found->second;
  }
  void add(int64_t event, Change change) {
    if (event < std::ssize(at_)) at_[static_cast<size_t>(event)].push_back(change);
  }
  std::vector<std::vector<Change>> at_;
  std::map<std::string, size_t> numbers_;
  std::vector<Term> terms_;
};

}  // namespace

Plan plan(std::span<const Holding> holdings, int64_t events, int64_t moments,
          std::span<const int64_t> borders) {
  const Changes changes(holdings, events);
  Plan plan;
  plan.terms = changes.terms();
  changes.walk([&](int64_t event, const std::vector<int64_t>& bytes, int64_t sum) {
    for (size_t t = 0; t < bytes.size(); ++t) plan.terms[t].most = std::max(plan.terms[t].most, bytes[t]);
    if (sum <= plan.peak) return;
    plan.peak = sum;
    plan.peak_event = event;
    for (size_t t = 0; t < bytes.size(); ++t) plan.terms[t].at_peak = bytes[t];
  });
  // In each stretch of events, the moment with the most bytes: a picture hides no peak.
  const int64_t stretch = std::max<int64_t>(1, (events + moments - 1) / std::max<int64_t>(1, moments));
  int64_t most = -1;
  changes.walk([&](int64_t event, const std::vector<int64_t>& bytes, int64_t sum) {
    if (event % stretch == 0) most = -1;
    if (std::ranges::binary_search(borders, event)) most = -1;
    if (most < 0) plan.moments.push_back({event, bytes});
    if (sum > most) plan.moments.back() = {event, bytes};
    most = std::max(most, sum);
  });
  return plan;
}

}  // namespace trl::memory
