#include "run/rollout/host_writer.h"

#include <numeric>

#include "base/error.h"
#include "run/rollout/turn.h"

namespace trl::run {

namespace {

void check_ids(std::span<const int32_t> ids, int64_t vocabulary, size_t row, size_t rows) {
  for (const int32_t id : ids) {
    if (id < 0 || id >= vocabulary)
      fail(Status::invalid_argument,
           "the host's rollout gave {} in row {} of {}, which is not a token of the model: give ids from 0 "
           "to {}",
           id, row, rows, vocabulary - 1);
  }
}

}  // namespace

std::vector<engine::Completion> HostWriter::write(const WantedCompletions& wanted) {
  clear();
  std::vector<size_t> all(wanted.prompts.ids.size());
  std::iota(all.begin(), all.end(), size_t{0});
  std::vector<HostRow> rows;
  for (const size_t row : all) rows.push_back(prompt_row(wanted.prompts, row, *wanted.columns[row]));
  completions_.assign(all.size(), {});
  write_turn(std::make_shared<HostRollout>(std::string(wanted.mode), wanted.step, std::move(rows)), all,
             wanted.columns);
  while (tools_ != nullptr) {
    const std::vector<engine::Continuation> more = tools_->go_on(completions_);
    if (more.empty()) break;
    go_on(wanted, more);
  }
  if (host_.has_written) host_.has_written();
  return std::move(completions_);
}

// Adds a turn of these rows to their completions.
void HostWriter::write_turn(const std::shared_ptr<HostRollout>& rollout, std::span<const size_t> rows,
                            RowColumns& columns) {
  host_.function(rollout);
  turns_.push_back({rollout, {rows.begin(), rows.end()}});
  for (size_t i = 0; i < rows.size(); ++i) {
    const HostRow& row = rollout->rows()[i];
    if (!row.completion)
      fail(Status::callback, "the host's rollout set no completion for row {} of {}: set each of them", i,
           rollout->size());
    check_ids(row.completion->ids, host_.vocabulary, i, rollout->size());
    add_turn(completions_[rows[i]], *row.completion);
    base::Json own = row.columns;
    own["prompt"] = row.prompt;
    columns[rows[i]] = std::make_shared<const base::Json>(std::move(own));
  }
}

// Writes a later turn, whose prompts are all tokens before it.
void HostWriter::go_on(const WantedCompletions& wanted, std::span<const engine::Continuation> more) {
  std::vector<HostRow> asked;
  std::vector<size_t> rows, most;
  for (const engine::Continuation& next : more) {
    engine::Completion& own = completions_[next.row];
    add_turn(own, answer_turn(next.ids));
    if (next.max_new_tokens == 0) continue;
    HostRow& row = asked.emplace_back(prompt_row(wanted.prompts, next.row, *wanted.columns[next.row]));
    row.prompt_ids.insert(row.prompt_ids.end(), own.ids.begin(), own.ids.end());
    row.details = {{"place", next.row}, {"messages", tools_->conversations()[next.row]}};
    rows.push_back(next.row);
    most.push_back(own.ids.size() + static_cast<size_t>(next.max_new_tokens));
  }
  if (rows.empty()) return;
  write_turn(std::make_shared<HostRollout>(std::string(wanted.mode), wanted.step, std::move(asked)), rows,
             wanted.columns);
  for (size_t i = 0; i < rows.size(); ++i) cut(completions_[rows[i]], most[i]);
}

void HostWriter::add_metrics(engine::Rewards& rewards) const {
  for (const auto& [rollout, unused] : turns_)
    rewards.metrics.insert(rewards.metrics.end(), rollout->metrics().begin(), rollout->metrics().end());
}

void HostWriter::add_extras(size_t all, reward::Columns& extras) const {
  for (const auto& [rollout, rows] : turns_) {
    for (const auto& [name, values] : rollout->extras()) {
      std::vector<base::Json>& column = extras[name];
      column.resize(all);
      for (size_t i = 0; i < rows.size(); ++i)
        if (!values[i].is_null()) column[rows[i]] = values[i];
    }
  }
}

}  // namespace trl::run
