#include "train/rollout/rollout.h"

#include <algorithm>

#include "data/prepare/example.h"

namespace trl::train {

int64_t Rollout::width() const {
  size_t longest = 0;
  for (const engine::Completion& own : completions) longest = std::max(longest, own.ids.size());
  return static_cast<int64_t>(longest);
}

size_t Rollout::padding(size_t row) const {
  return pad ? static_cast<size_t>(width()) - completions[row].ids.size() : 0;
}

int64_t Rollout::written(size_t row) const {
  const engine::Completion& own = completions[row];
  return own.written.empty() ? std::ssize(own.ids) : std::ssize(own.ids) - std::ranges::count(own.written, 0);
}

int64_t Rollout::tokens() const {
  int64_t sum = 0;
  for (size_t row = 0; row < completions.size(); ++row) sum += std::ssize(prompts.ids[row]) + written(row);
  return sum;
}

int64_t Rollout::items() const {
  if (prompts.items > 0) return prompts.items;
  int64_t sum = 0;
  for (size_t row = 0; row < completions.size(); ++row) sum += learned[row] != 0 ? written(row) : 0;
  return sum;
}

data::Batch batch_of(const Rollout& rollout, std::span<const int64_t> rows) {
  data::Batch out;
  out.cu_seqlens.push_back(0);
  size_t longest_prompt = 0;
  for (const std::vector<int32_t>& prompt : rollout.prompts.ids)
    longest_prompt = std::max(longest_prompt, prompt.size());
  int64_t hidden = 0;
  for (const int64_t number : rows) {
    const auto row = static_cast<size_t>(number);
    const std::vector<int32_t>& prompt = rollout.prompts.ids[row];
    const engine::Completion& completion = rollout.completions[row];
    // As in TRL, the row ends with its prompt if its completion is left out: routers do not count it either.
    const size_t length = rollout.learned[row] != 0 ? completion.ids.size() : 0;
    const auto end = static_cast<std::ptrdiff_t>(length);
    hidden += std::ssize(completion.ids) - end;
    out.row_ids.push_back(rollout.prompts.row_ids[row]);
    out.columns[kRow].push_back(static_cast<float>(row));
    out.input_ids.insert(out.input_ids.end(), prompt.begin(), prompt.end());
    out.input_ids.insert(out.input_ids.end(), completion.ids.begin(), completion.ids.begin() + end);
    out.labels.resize(out.labels.size() + prompt.size(), data::kIgnored);
    for (size_t t = 0; t < length; ++t)
      out.labels.push_back(completion.counts(t) ? completion.ids[t] : data::kIgnored);
    if (rollout.pad) {
      out.input_ids.resize(out.input_ids.size() + rollout.padding(row), *rollout.pad);
      out.labels.resize(out.input_ids.size(), *rollout.pad);
    }
    const size_t written = length + rollout.padding(row);
    for (size_t i = 0; i < prompt.size() + written; ++i) out.position_ids.push_back(static_cast<int32_t>(i));
    for (const auto& [name, values] : rollout.token_columns) {
      std::vector<float>& column = out.token_columns[name];
      column.resize(column.size() + prompt.size(), 0.0f);
      column.insert(column.end(), values[row].begin(),
                    values[row].begin() + static_cast<std::ptrdiff_t>(written));
    }
    if (!rollout.advantages.empty()) out.columns["advantages"].push_back(rollout.advantages[row]);
    for (const auto& [name, values] : rollout.columns) out.columns[name].push_back(values[row]);
    out.cu_seqlens.push_back(static_cast<int32_t>(out.input_ids.size()));
  }
  out.rows = std::ssize(rows);
  out.width = static_cast<int64_t>(longest_prompt) + rollout.width();
  out.input_numel = out.rows * out.width;
  out.non_padding_tokens = out.tokens() + hidden;
  for (const int64_t row : rows)
    out.non_padding_tokens -= static_cast<int64_t>(rollout.padding(static_cast<size_t>(row)));
  out.items = rollout.items();
  return out;
}

void add_length_metrics(Rollout& rollout) {
  struct Lengths {
    int64_t rows = 0, sum = 0, least = 0, most = 0;
    void add(int64_t length) {
      least = rows == 0 ? length : std::min(least, length);
      most = std::max(most, length);
      sum += length;
      ++rows;
    }
    double mean() const { return rows == 0 ? 0 : static_cast<double>(sum) / static_cast<double>(rows); }
  };
  Lengths all, ended;
  for (size_t row = 0; row < rollout.completions.size(); ++row) {
    all.add(rollout.written(row));
    if (rollout.ended[row] != 0) ended.add(rollout.written(row));
  }
  const auto cut = static_cast<double>(all.rows - ended.rows);
  rollout.metrics.insert(rollout.metrics.end(),
                         {{"completions/mean_length", all.mean()},
                          {"completions/min_length", all.least},
                          {"completions/max_length", all.most},
                          {"completions/clipped_ratio", cut / static_cast<double>(all.rows)},
                          {"completions/mean_terminated_length", ended.mean()},
                          {"completions/min_terminated_length", ended.least},
                          {"completions/max_terminated_length", ended.most}});
}

}  // namespace trl::train
