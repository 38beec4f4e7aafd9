#include "telemetry/published_state.h"

#include <exception>

#include "base/json/json.h"

namespace trl::telemetry {

namespace {

base::Json json_of(const Record& record) {
  base::Json json = base::Json::object();
  for (const Entry& entry : record.entries()) {
    if (entry.none)
      json[entry.name] = nullptr;
    else if (entry.integer)
      json[entry.name] = static_cast<int64_t>(entry.value);
    else
      json[entry.name] = entry.value;
  }
  return json;
}

// Makes `to` equal to `from`, of which it is an earlier version. Records are only added or removed at the
// end, so what comes before a record that both have is the same.
void follow(std::vector<Record>& to, const std::vector<Record>& from) {
  while (!to.empty() && (to.size() > from.size() || !to.back().shares_entries(from[to.size() - 1])))
    to.pop_back();
  to.insert(to.end(), from.begin() + static_cast<std::ptrdiff_t>(to.size()), from.end());
}

}  // namespace

void PublishedState::publish(const TrainerState& state, const Record& step) noexcept {
  const std::lock_guard lock(mutex_);
  try {
    follow(state_.log_history, state.log_history);
    step_ = step;
    static_cast<Progress&>(state_) = state;
  } catch (const std::exception&) {
    return;
  }
}

int64_t PublishedState::global_step() const {
  const std::lock_guard lock(mutex_);
  return state_.global_step;
}

std::string PublishedState::describe() const {
  std::unique_lock lock(mutex_);
  const TrainerState state = state_;  // shares the records
  const Record step = step_;
  lock.unlock();
  base::Json json = base::parse_python_json(trainer_state_json(state), "trainer_state.json");
  json["metrics"] = json_of(step);
  return json.dump();
}

}  // namespace trl::telemetry
