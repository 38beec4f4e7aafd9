#include "telemetry/trainer_state.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/error.h"
#include "base/files/files.h"
#include "base/json/json.h"
#include "base/text/number.h"

namespace trl::telemetry {

namespace {

std::string json_string(const std::string& text) { return base::Json(text).dump(-1, ' ', true); }

std::string record_json(const Record& record) {
  std::vector<Entry> entries = record.entries();
  std::ranges::sort(entries, [](const Entry& a, const Entry& b) { return a.name < b.name; });
  std::string out = "    {";
  for (size_t i = 0; i < entries.size(); ++i)
    out += (i == 0 ? "\n      " : ",\n      ") + json_string(entries[i].name) + ": " + to_text(entries[i]);
  return out + (entries.empty() ? "}" : "\n    }");
}

std::string history_json(const std::vector<Record>& history) {
  if (history.empty()) return "[]";
  std::string out = "[";
  for (size_t i = 0; i < history.size(); ++i) out += (i == 0 ? "\n" : ",\n") + record_json(history[i]);
  return out + "\n  ]";
}

std::string callbacks_json(const TrainerState& state) {
  std::string out = "{\n    \"TrainerControl\": {\n      \"args\": {\n";
  for (const char* flag : {"should_epoch_stop", "should_evaluate", "should_log"})
    out += fmt::format("        \"{}\": false,\n", flag);
  return out + fmt::format(
                   "        \"should_save\": {},\n        \"should_training_stop\": {}\n      }},\n"
                   "      \"attributes\": {{}}\n    }}\n  }}",
                   state.should_save, state.should_training_stop);
}

Record parse_record(const base::Json& json) {
  Record record;
  for (const auto& [name, value] : json.items())
    if (value.is_null())
      record.set_none(name);
    else if (value.is_number_integer())
      record.set_integer(name, value.get<int64_t>());
    else
      record.set(name, value.get<double>());
  return record;
}

}  // namespace

const std::vector<Entry>& Record::entries() const {
  static const std::vector<Entry> none;
  return entries_ != nullptr ? *entries_ : none;
}

void Record::put(Entry entry) {
  if (entries_ == nullptr)
    entries_ = std::make_shared<std::vector<Entry>>();
  else if (entries_.use_count() > 1)
    entries_ = std::make_shared<std::vector<Entry>>(*entries_);
  const auto known = std::ranges::find(*entries_, entry.name, &Entry::name);
  if (known != entries_->end())
    *known = std::move(entry);
  else
    entries_->push_back(std::move(entry));
}

std::string python_float(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
  char buffer[400];  // the longest fixed notation has 309 digits
  const auto shortest = std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::scientific);
  std::string text(buffer, shortest.ptr);
  const size_t mark = text.find('e');
  const int64_t exponent = base::parse_int64(std::string_view(text).substr(mark + 1)).value_or(0);
  if (exponent < -4 || exponent >= 16) return text;
  const auto fixed = std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::fixed);
  text.assign(buffer, fixed.ptr);
  if (text.find('.') == std::string::npos) text += ".0";
  return text;
}

std::string to_text(const Entry& entry) {
  if (entry.none) return "null";
  return entry.integer ? std::to_string(static_cast<int64_t>(entry.value)) : python_float(entry.value);
}

double round_decimals(double value, int decimals) {
  if (!std::isfinite(value)) return value;
  char buffer[400];
  const auto result =
      std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::fixed, decimals);
  return base::parse_double(std::string_view(buffer, static_cast<size_t>(result.ptr - buffer)))
      .value_or(value);
}

std::string trainer_state_json(const TrainerState& state) {
  const std::string epoch = state.global_step == 0 ? "0" : python_float(state.epoch);
  const std::pair<const char*, std::string> fields[] = {
      {"best_global_step", state.best_global_step > 0 ? std::to_string(state.best_global_step) : "null"},
      {"best_metric", state.best_metric ? python_float(*state.best_metric) : "null"},
      {"best_model_checkpoint",
       state.best_model_checkpoint.empty() ? "null" : json_string(state.best_model_checkpoint)},
      {"epoch", epoch},
      {"eval_steps", std::to_string(state.eval_steps)},
      {"global_step", std::to_string(state.global_step)},
      {"is_hyper_param_search", "false"},
      {"is_local_process_zero", "true"},
      {"is_world_process_zero", "true"},
      {"log_history", history_json(state.log_history)},
      {"logging_steps", std::to_string(state.logging_steps)},
      {"max_steps", std::to_string(state.max_steps)},
      {"num_input_tokens_seen", std::to_string(state.num_input_tokens_seen)},
      {"num_train_epochs", std::to_string(state.num_train_epochs)},
      {"save_steps", std::to_string(state.save_steps)},
      {"stateful_callbacks", callbacks_json(state)},
      {"total_flos", state.total_flos == 0 ? "0" : python_float(state.total_flos)},
      {"train_batch_size", std::to_string(state.train_batch_size)},
      {"trial_name", "null"},
      {"trial_params", "null"},
  };
  std::string out = "{";
  for (const auto& [name, value] : fields)
    out += fmt::format("{}\n  \"{}\": {}", out.size() == 1 ? "" : ",", name, value);
  return out + "\n}\n";
}

TrainerState parse_trainer_state(std::string_view text, std::string_view origin) {
  const base::Json json = base::parse_python_json(text, origin);
  try {
    TrainerState state;
    state.epoch = json.at("epoch").get<double>();
    state.global_step = json.at("global_step").get<int64_t>();
    state.total_flos = json.at("total_flos").get<double>();
    state.num_input_tokens_seen = json.value("num_input_tokens_seen", int64_t{0});
    if (!json.at("best_metric").is_null()) state.best_metric = json.at("best_metric").get<double>();
    if (!json.at("best_global_step").is_null()) state.best_global_step = json.at("best_global_step");
    if (!json.at("best_model_checkpoint").is_null())
      state.best_model_checkpoint = json.at("best_model_checkpoint");
    for (const base::Json& record : json.at("log_history")) state.log_history.push_back(parse_record(record));
    return state;
  } catch (const std::exception& error) {  // from nlohmann, or for a word that is not a number
    fail(Status::format, "{}: not the state of a training run: {}", origin, error.what());
  }
}

void write_trainer_state(const TrainerState& state, const std::string& directory) {
  base::make_directories(directory);
  base::replace_file(base::join_path(directory, "trainer_state.json"), trainer_state_json(state));
}

}  // namespace trl::telemetry
