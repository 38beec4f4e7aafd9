#include "train/run/run_state.h"

#include <cmath>
#include <type_traits>

#include "base/text/number.h"

namespace trl::train {

namespace {

using base::Json;

enum class Kept : uint8_t { always, later };  // later: earlier checkpoints lack it

// Calls field(group, name, value, kept) for each value of a checkpoint, in the order of the file.
template <typename State, typename Field>
void each_field(State& s, const Field& field) {
  field("position", "epoch", s.epoch, Kept::always);
  field("position", "micro_batches_done", s.micro_batches_done, Kept::always);
  field("position", "updates_done", s.updates_in_epoch, Kept::always);
  field("position", "micro_batches_per_epoch", s.micro_batches_per_epoch, Kept::always);
  field("position", "gradient_accumulation_steps", s.gradient_accumulation_steps, Kept::always);
  field("position", "in_epoch", s.in_epoch, Kept::always);
  field("position", "evaluations", s.evaluations, Kept::later);
  field("position", "evaluations_before_epochs", s.evaluations_before_epochs, Kept::later);
  field("position", "epoch_complete", s.epoch_complete, Kept::always);
  field("due", "samples", s.samples_due, Kept::later);
  field("due", "log", s.log_due, Kept::always);
  field("due", "evaluate", s.evaluation_due, Kept::always);
  field("due", "save", s.save_due, Kept::always);
  field("sums", "loss_since_log", s.loss_since_log, Kept::always);
  field("sums", "loss_logged", s.loss_logged, Kept::always);
  field("sums", "last_logged_step", s.last_logged_step, Kept::always);
  field("sums", "means", s.means, Kept::always);
  field("sums", "training_mode", s.training_mode, Kept::always);
  field("sums", "grad_norm", s.grad_norm, Kept::always);
  field("sums", "learning_rate", s.learning_rate, Kept::always);
  field("sums", "num_tokens", s.num_tokens, Kept::always);
  field("sums", "tokens_logged", s.tokens_logged, Kept::later);
  field("sums", "skipped", s.skipped, Kept::always);
  field("sums", "skipped_since_log", s.skipped_since_log, Kept::always);
  field("sums", "omitted_since_log", s.omitted_since_log, Kept::later);
  field("sums", "shared_since_log", s.shared_since_log, Kept::later);
  field("sums", "rows_since_log", s.rows_since_log, Kept::later);
  field("sums", "silent_since_log", s.silent_since_log, Kept::later);
  field("sums", "silent_seconds", s.silent_seconds, Kept::later);
  field("sums", "seconds", s.seconds_before, Kept::always);
  field("sums", "speeds", s.speeds, Kept::later);
}

template <typename T>
Json encoded(const T& value) {
  if constexpr (std::is_floating_point_v<T>) {
    const auto wide = static_cast<double>(value);
    return std::isfinite(wide) ? Json(wide) : Json(base::format_double(wide));
  } else {
    return Json(value);
  }
}

Json encoded(const Means& means) {
  Json json = Json::array();
  for (const Means::Sum& sum : means.sums())
    json.push_back({{"name", sum.name}, {"total", encoded(sum.total)}, {"count", sum.count}});
  return json;
}

Json encoded(const std::vector<telemetry::Speed>& speeds) {
  Json json = Json::array();
  for (const telemetry::Speed& speed : speeds) json.push_back({speed.step, speed.tokens_per_second});
  return json;
}

template <typename T>
void decode(const Json& json, T& value) {
  if constexpr (std::is_floating_point_v<T>) {
    value = static_cast<T>(json.is_string() ? base::parse_double(json.get<std::string>()).value()
                                            : json.get<double>());
  } else {
    value = json.get<T>();
  }
}

void decode(const Json& json, Means& means) {
  std::vector<Means::Sum> sums;
  for (const Json& one : json) {
    Means::Sum& sum = sums.emplace_back(Means::Sum{one.at("name"), 0, one.at("count")});
    decode(one.at("total"), sum.total);
  }
  means.set_sums(std::move(sums));
}

void decode(const Json& json, std::vector<telemetry::Speed>& speeds) {
  for (const Json& speed : json) speeds.push_back({speed.at(0), speed.at(1)});
}

}  // namespace

Json to_json(const RunState& state) {
  Json json = Json::object();
  each_field(state, [&](const char* group, const char* name, const auto& value, Kept) {
    if (!json.contains(group)) json[group] = Json::object();
    json[group][name] = encoded(value);
  });
  return json;
}

RunState run_state_of(const Json& json) {
  RunState state;
  each_field(state, [&](const char* group, const char* name, auto& value, Kept kept) {
    if (const Json& values = json.at(group); kept == Kept::always || values.contains(name))
      decode(values.at(name), value);
  });
  return state;
}

Json numbers_json(const std::map<std::string, double>& numbers) {
  Json json = Json::object();
  for (const auto& [name, value] : numbers) json[name] = encoded(value);
  return json;
}

std::map<std::string, double> numbers_of(const Json& json) {
  std::map<std::string, double> numbers;
  for (const auto& [name, value] : json.items()) decode(value, numbers[name]);
  return numbers;
}

void Means::add(std::string_view name, double total, int64_t count) {
  auto sum = std::ranges::find_if(sums_, [&](const Sum& s) { return s.name == name; });
  if (sum == sums_.end()) sum = sums_.insert(sums_.end(), Sum{std::string(name)});
  sum->total += total;
  sum->count += count;
}

void Means::write(telemetry::Record& record, std::string_view prefix) const {
  for (const Sum& sum : sums_) {
    const std::string name = std::string(prefix) + sum.name;
    if (sum.count == 0)
      record.set_none(name);
    else
      record.set(name, sum.total / static_cast<double>(sum.count));
  }
}

}  // namespace trl::train
