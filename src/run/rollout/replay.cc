#include "run/rollout/replay.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/json/is_text.h"
#include "base/text/number.h"
#include "base/text/utf8.h"
#include "data/source/row_files.h"
#include "run/rollout/json_number.h"

namespace trl::run {

namespace {

constexpr const char* kReplay = "replay_rollouts";

template <typename... Args>
[[noreturn]] void fail_line(const Place& where, fmt::format_string<Args...> text, Args&&... args) {
  fail_key(kReplay, "{}: {}: {}", kReplay, where, fmt::format(text, std::forward<Args>(args)...));
}

// Makes an error of reading the file name the key.
template <class Body>
auto naming_replay(Body&& body) {
  try {
    return body();
  } catch (const Error& error) {
    throw error.with(fmt::format("{}: {}", kReplay, error.message()), kReplay);
  }
}

std::string brief(const base::Json& value) {
  constexpr size_t kLongest = 60;
  const std::string text = base::exact_text(value);
  return text.size() <= kLongest ? text : base::one_line(text.substr(0, kLongest)) + "...";
}

std::vector<int32_t> ids_of(const base::Json& line, const char* name, const Place& where) {
  const auto found = line.find(name);
  if (found == line.end() || !found->is_array()) fail_line(where, "{}: give a list of token ids", name);
  std::vector<int32_t> ids;
  for (const base::Json& id : *found) {
    if (!id.is_number_integer() || id < 0 || id > std::numeric_limits<int32_t>::max())
      fail_line(where, "{}: {} is not a token id: give an integer >= 0", name, brief(id));
    ids.push_back(id.get<int32_t>());
  }
  return ids;
}

// null: not known, or none.
double number_of(const base::Json& value, std::string_view name, const Place& where) {
  if (value.is_null()) return std::nan("");
  if (!value.is_number() || !in_float32(value.get<double>()))
    fail_line(where, "{}: {} is not accepted: give a number of float32 or null", name, brief(value));
  return value.get<double>();
}

ReplayedRow row_of(const base::Json& line, const Place& where) {
  ReplayedRow row;
  row.completion.ids = ids_of(line, "completion_ids", where);
  if (const auto found = line.find("logprobs"); found != line.end() && !found->is_null()) {
    if (!found->is_array() || found->size() != row.completion.ids.size())
      fail_line(where,
                "logprobs: give a list with a number or null for each of the {} completion_ids, or null",
                row.completion.ids.size());
    for (const base::Json& value : *found) {
      const double number = number_of(value, "logprobs", where);
      if (!is_log_probability(number))
        fail_line(where, "logprobs: place {}: {} is not accepted: give a number up to 0, or null",
                  row.completion.log_probabilities.size(), brief(value));
      row.completion.log_probabilities.push_back(static_cast<float>(number));
    }
  }
  if (const auto found = line.find("tool_mask"); found != line.end() && !found->is_null()) {
    const auto is_flag = [](const base::Json& value) { return value == 0 || value == 1; };
    if (!found->is_array() || found->size() != row.completion.ids.size() ||
        !std::ranges::all_of(*found, is_flag))
      fail_line(where, "tool_mask: give a list with 0 or 1 for each of the {} completion_ids, or null",
                row.completion.ids.size());
    for (const base::Json& value : *found) row.completion.written.push_back(value.get<uint8_t>());
  }
  if (const auto found = line.find("resampled"); found != line.end() && !found->is_null()) {
    if (!found->is_number_integer() || *found < 0 || *found > std::numeric_limits<int32_t>::max())
      fail_line(where, "resampled: {} is not accepted: give an integer >= 0", brief(*found));
    row.resampled = found->get<int64_t>();
  }
  if (const auto found = line.find("rewards"); found != line.end() && !found->is_null()) {
    if (!found->is_object()) fail_line(where, "rewards: give a mapping from names to numbers");
    for (const auto& [name, value] : found->items()) {
      if (name.empty()) fail_line(where, "rewards: a name is empty: give the name of its metrics");
      const bool holds = value == true;  // as in TRL, a truth value is 0 or 1
      row.rewards.emplace_back(
          name, value.is_boolean() ? holds : number_of(value, fmt::format("rewards: {}", name), where));
    }
  }
  return row;
}

}  // namespace

void check_replay(const std::string& path) {
  naming_replay([&] { data::files_stamp(data::find_files(path)); });
}

Replay::Replay(const std::string& path)
    : path_(path), lines_(naming_replay([&] { return data::open_file_table(path, {}); })) {
  for (int64_t place = 0; place < lines_->size(); ++place) {
    Place where;
    const base::Json now = line(place, where);
    const ReplayedRow row = row_of(now, where);
    count(place, now);
    for (const auto& [name, value] : row.rewards)
      if (std::ranges::find(names_, name) == names_.end()) names_.push_back(name);
    for (const int32_t id : row.completion.ids) {
      if (id <= largest_id_) continue;
      largest_id_ = id;
      place_of_largest_ = where;
    }
  }
}

void Replay::count(int64_t place, const base::Json& line) {
  const auto mode = line.find("mode"), number = line.find("generation");
  Part own{Mode::any, std::nullopt, place, 1};
  if (mode != line.end() && base::is_text(*mode, "train")) own.mode = Mode::train;
  if (mode != line.end() && base::is_text(*mode, "eval")) own.mode = Mode::eval;
  if (number != line.end() && number->is_number_integer()) own.generation = number->get<int64_t>();
  const bool follows =
      !parts_.empty() && parts_.back().mode == own.mode && parts_.back().generation == own.generation;
  if (follows)
    ++parts_.back().lines;
  else
    parts_.push_back(own);
}

ReplayLines Replay::left() const {
  ReplayLines lines;
  for (const Part& part : parts_) {
    const int64_t left = part.lines - std::clamp<int64_t>(next_ - part.first, 0, part.lines);
    (part.mode == Mode::train ? lines.train : part.mode == Mode::eval ? lines.eval : lines.any) += left;
  }
  return lines;
}

void Replay::check_generations(int64_t first, const std::function<int64_t()>& next_size) const {
  int64_t number = first;
  for (auto part = parts_.begin(); part != parts_.end(); ++part) {
    if (part->first + part->lines <= next_) continue;
    if (!part->named()) return;
    if (part->first < next_ || part->mode != Mode::train) continue;
    const int64_t size = next_size();
    if (size == 0) return;
    const auto after = std::next(part);
    const bool ends = after == parts_.end() || after->named();
    if (*part->generation != number || (ends ? part->lines != size : part->lines > size)) {
      Place where;
      line(part->first, where);
      fail_line(where,
                "generation {} begins here with {}, and the run has {} in its generation {}: give a file of "
                "this run",
                *part->generation, base::quantity(part->lines, "line"), base::quantity(size, "completion"),
                number);
    }
    ++number;
  }
}

std::vector<std::optional<int64_t>> Replay::next_prompts(int64_t count) const {
  std::vector<std::optional<int64_t>> rows;
  for (int64_t place = next_; place < std::min(next_ + count, lines_->size()); ++place) {
    Place where;
    const base::Json now = line(place, where);
    const auto row = now.find("row");
    const bool says = row != now.end() && row->is_number_integer();
    rows.push_back(says ? std::optional(row->get<int64_t>()) : std::nullopt);
  }
  return rows;
}

void Replay::check_ids(int64_t vocabulary) const {
  if (largest_id_ < vocabulary) return;
  fail_line(place_of_largest_, "completion_ids: {} is not a token of the model: give ids from 0 to {}",
            largest_id_, vocabulary - 1);
}

base::Json Replay::line(int64_t place, Place& where) const {
  data::Row row = naming_replay([&] {
    std::vector<data::RowText> texts;
    lines_->fetch({&place, 1}, texts);
    return data::parse_row(texts.front());
  });
  where = row.where;
  return std::move(row.value);
}

std::vector<ReplayedRow> Replay::take(std::string_view mode, int64_t generation,
                                      const engine::PromptRows& prompts) {
  std::vector<ReplayedRow> rows;
  const auto count = std::ssize(prompts.ids);
  if (next_ + count > lines_->size())
    fail_key(kReplay,
             "{}: {}: it has {} lines, and generation {} ({}) needs {} more: give a file of this run",
             kReplay, Place{path_}, lines_->size(), generation, mode, next_ + count - lines_->size());
  for (int64_t i = 0; i < count; ++i) {
    Place where;
    const base::Json now = line(next_ + i, where);
    const auto compare = [&](const char* name, const base::Json& wanted) {
      const auto found = now.find(name);
      if (found != now.end() && *found != wanted)
        fail_line(where, "{} is {}, and the run is at {}: give a file of this run", name, brief(*found),
                  brief(wanted));
    };
    const auto row = static_cast<size_t>(i);
    compare("mode", mode);
    compare("generation", generation);
    compare("row", prompts.row_ids[row]);
    compare("prompt_ids", prompts.ids[row]);
    rows.push_back(row_of(now, where));
  }
  next_ += count;
  return rows;
}

std::vector<engine::Completion> ReplayedCompletions::write(const WantedCompletions& wanted) {
  rows_ = replay_->take(wanted.mode, wanted.generation, wanted.prompts);
  std::vector<engine::Completion> completions;
  for (const ReplayedRow& row : rows_) completions.push_back(row.completion);
  return completions;
}

std::vector<int64_t> ReplayedCompletions::resampled() const {
  std::vector<int64_t> draws;
  for (const ReplayedRow& row : rows_) draws.push_back(row.resampled);
  return draws;
}

}  // namespace trl::run
