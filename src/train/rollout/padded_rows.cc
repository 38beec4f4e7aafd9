#include "train/rollout/padded_rows.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace trl::train {

namespace {

size_t width_of(const Rollout& rollout) {
  size_t width = 0;
  for (const engine::Completion& own : rollout.completions) width = std::max(width, own.ids.size());
  return width;
}

// Adds rows to a batch, a token at a time.
class Rows {
 public:
  Rows(const Rollout& rollout, data::Batch& out)
      : rollout_(rollout), out_(out), padding_(out.token_columns[std::string(data::kPadding)]) {
    out_.cu_seqlens.push_back(0);
    for (const auto& [name, values] : rollout.token_columns)
      if (name != kValue && name != kReturn) columns_.emplace_back(&values, &out_.token_columns[name]);
  }

  void begin_row(size_t row) {
    row_ = row;
    position_ = 0;
    main_ = -1;
    open_ = false;
  }
  void end_row() {
    close();
    out_.sequences.push_back(main_);
  }
  // Adds a token that later ones attend to. learned: the number of the action that it is, if it is one.
  void add(int32_t id, std::optional<size_t> learned) {
    if (!open_) {
      out_.parents.push_back(main_);
      main_ = static_cast<int32_t>(std::ssize(out_.parents)) - 1;
      open_ = true;
    }
    push(id, learned);
    ++position_;
  }
  // Adds the token in place of padding here.
  void add_probe(float count) {
    close();
    out_.parents.push_back(main_);
    push(0, std::nullopt);
    padding_.back() = 1;
    set_entropy(count);
    end_segment();
    probes_ = true;
  }
  // The last token has the distribution of so many positions.
  void set_entropy(float count) { out_.states[kEntropyCount].back() = count; }
  // The last token is the state before action t.
  void set_state(size_t t) {
    for (const char* const name : {kValue, kReturn}) {
      const auto found = rollout_.token_columns.find(name);
      out_.states[name].back() = found == rollout_.token_columns.end() ? 0 : found->second[row_][t];
    }
  }
  // Without probes the rows are documents.
  void finish() {
    if (probes_) return;
    out_.parents.clear();
    out_.sequences.clear();
  }

 private:
  void push(int32_t id, std::optional<size_t> learned) {
    out_.input_ids.push_back(id);
    out_.position_ids.push_back(position_);
    out_.labels.push_back(learned ? id : kIgnored);
    padding_.push_back(0);
    for (const auto& [values, column] : columns_) column->push_back(learned ? (*values)[row_][*learned] : 0);
    out_.states[kEntropyCount].push_back(0);
    for (const char* const name : {kValue, kReturn}) out_.states[name].push_back(std::nanf(""));
  }
  void close() {
    if (open_) end_segment();
    open_ = false;
  }
  void end_segment() { out_.cu_seqlens.push_back(static_cast<int32_t>(out_.input_ids.size())); }

  static constexpr int32_t kIgnored = -100;
  const Rollout& rollout_;
  data::Batch& out_;
  std::vector<float>& padding_;
  std::vector<std::pair<const TokenRows*, std::vector<float>*>> columns_;
  size_t row_ = 0;
  int32_t position_ = 0, main_ = -1;
  bool open_ = false, probes_ = false;
};

}  // namespace

void PaddedRows::pad(Rollout& rollout) const {
  const size_t width = width_of(rollout);
  if (width == 0)
    fail(Status::invalid_argument, "all completions of a batch are empty: there is nothing to learn from");
  for (size_t row = 0; row < rollout.completions.size(); ++row) {
    engine::Completion& own = rollout.completions[row];
    const auto given = std::ranges::find(own.written, uint8_t{0});
    if (given != own.written.end()) {
      fail(Status::invalid_argument,
           "completion {} of {}, {}, has a token that the model did not write (token {}), and "
           "this trainer learns from each token: give completions without such tokens",
           row, rollout.completions.size(), trl::Place::of_row(rollout.prompts.row_ids[row]),
           given - own.written.begin());
    }
    own.written.clear();
    own.ids.resize(width, pad_);
    if (!own.log_probabilities.empty()) own.log_probabilities.resize(width, std::nanf(""));
  }
}

size_t PaddedRows::tokens(const std::vector<int32_t>& ids) const {
  for (size_t t = 0; t < ids.size(); ++t) {
    if (ids[t] == pad_) return t;
    if (ids[t] == stop_) return t + 1;
  }
  return ids.size();
}

bool PaddedRows::contains(const std::vector<int32_t>& ids, int32_t token) const {
  for (size_t t = 0; t < ids.size(); ++t) {
    if (ids[t] == token) return true;
    if (ids[t] == stop_) return t + 1 < ids.size() && pad_ == token;
  }
  return false;
}

data::Batch PaddedRows::batch_of(const Rollout& rollout, std::span<const int64_t> rows) const {
  data::Batch out;
  Rows to(rollout, out);
  const size_t width = width_of(rollout);
  size_t longest_prompt = 0;
  for (const std::vector<int32_t>& prompt : rollout.prompts.ids)
    longest_prompt = std::max(longest_prompt, prompt.size());
  for (const int64_t number : rows) {
    const auto row = static_cast<size_t>(number);
    const std::vector<int32_t>& ids = rollout.completions[row].ids;
    const size_t learned = tokens(ids), states = this->states(ids);
    to.begin_row(row);
    for (const int32_t id : rollout.prompts.ids[row])
      if (id != pad_) to.add(id, std::nullopt);
    to.set_entropy(1);
    to.set_state(0);
    for (size_t t = 0; t < width; ++t) {
      if (ids[t] != pad_) {
        to.add(ids[t], t < learned ? std::optional(t) : std::nullopt);
        if (t + 1 < width) to.set_entropy(1);
        if (t + 1 < states) to.set_state(t + 1);
        continue;
      }
      const size_t first = t;
      while (t + 1 < width && ids[t + 1] == pad_) ++t;
      const size_t positions =
          t + 1 - first - (t + 1 == width ? 1 : 0);  // the last position predicts nothing
      if (probes_ && positions > 0) to.add_probe(static_cast<float>(positions));
    }
    to.end_row();
    out.row_ids.push_back(rollout.prompts.row_ids[row]);
    out.columns[kWidth].push_back(static_cast<float>(width));
    out.non_padding_tokens += std::ssize(rollout.prompts.ids[row]) + static_cast<int64_t>(learned);
  }
  to.finish();
  out.rows = std::ssize(rows);
  out.width = static_cast<int64_t>(longest_prompt + width);
  out.input_numel = out.rows * out.width;
  return out;
}

}  // namespace trl::train
