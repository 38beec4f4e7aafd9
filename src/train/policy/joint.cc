#include "train/policy/joint.h"

#include <algorithm>
#include <iterator>

#include "train/batches/batches.h"
#include "train/rollout/rollout.h"

namespace trl::train {

namespace {

void append(const std::vector<int32_t>& from, size_t begin, size_t end, std::vector<int32_t>& to) {
  to.insert(to.end(), from.begin() + static_cast<std::ptrdiff_t>(begin),
            from.begin() + static_cast<std::ptrdiff_t>(end));
}

// Appends a document of a batch without trees.
void append(const data::Batch& from, size_t document, data::Batch& to) {
  const auto begin = static_cast<size_t>(from.cu_seqlens[document]),
             end = static_cast<size_t>(from.cu_seqlens[document + 1]);
  append(from.input_ids, begin, end, to.input_ids);
  append(from.labels, begin, end, to.labels);
  append(from.position_ids, begin, end, to.position_ids);
  for (const auto& [name, values] : from.token_columns) {
    std::vector<float>& column = to.token_columns[name];
    std::copy(values.begin() + static_cast<std::ptrdiff_t>(begin),
              values.begin() + static_cast<std::ptrdiff_t>(end), std::back_inserter(column));
  }
  to.row_ids.push_back(from.row_ids[document]);
  to.cu_seqlens.push_back(static_cast<int32_t>(to.input_ids.size()));
  ++to.rows;
}

// Rows of a window that go through the model in the same way.
struct Chosen {
  data::Batch rows;
  std::vector<Place> places;

  Chosen() { rows.cu_seqlens.push_back(0); }
  void add(std::span<const MicroBatch> window, const Place& place) {
    append(*window[place.batch].flat, place.sequence, rows);
    places.push_back(place);
  }
};

// Returns the tokens of the largest tree.
int64_t largest_tree(const MicroBatch& batch) {
  const kernels::Segments& segments = *batch.segments;
  int64_t largest = 0;
  int32_t begin = 0;
  for (size_t s = 0; s < segments.prefix.size(); ++s) {
    if (segments.prefix[s] < 0) begin = segments.cu_seqlens[s];
    largest = std::max<int64_t>(largest, segments.cu_seqlens[s + 1] - begin);
  }
  return largest;
}

// Returns the places of all sequences in the order of the rollout, in which their old log-probabilities were
// computed: trees of rows that begin alike are then the same, and so are the sums within.
std::vector<Place> ordered(std::span<const MicroBatch> window) {
  std::vector<Place> places;
  for (size_t b = 0; b < window.size(); ++b)
    for (size_t s = 0; s < static_cast<size_t>(window[b].sequence_count()); ++s) places.push_back({b, s});
  const auto row = [&](const Place& place) {
    const auto rows = window[place.batch].columns.find(kRow);
    return rows == window[place.batch].columns.end() ? 0 : rows->second[place.sequence];
  };
  std::ranges::stable_sort(places, {}, row);
  return places;
}

// Appends the rows in parts. micro_batch: tokens of the largest one.
void append(const Chosen& chosen, JointRules rules, int64_t micro_batch, Joint& joint) {
  if (chosen.places.empty()) return;
  const int64_t most = std::min(micro_batch, rules.most_tokens.value_or(micro_batch));
  MicroBatch all = copied(chosen.rows, rules.vocab_size, rules.share);
  const int64_t tree = largest_tree(all);
  if (tree > most && (rules.most_tokens || largest_part(most, tree) == most)) {
    rules.share->most = std::min(rules.share->most, most);
    all = copied(chosen.rows, rules.vocab_size, rules.share);
  }
  const auto before = static_cast<int32_t>(joint.places.size());
  for (MicroBatch& part : parts_of(all, most)) {
    for (int32_t& sequence : part.targets.sequences) sequence += before;
    joint.parts.push_back(std::move(part));
  }
  joint.places.insert(joint.places.end(), chosen.places.begin(), chosen.places.end());
}

bool is_silent(const MicroBatch& batch, size_t sequence) {
  return batch.sequence_labels[sequence] == 0 || batch.columns.at("advantages")[sequence] == 0;
}

}  // namespace

int64_t Joint::tokens_of(std::span<const MicroBatch> parts) {
  int64_t sum = 0;
  for (const MicroBatch& part : parts) sum += part.input_ids.numel();
  return sum;
}

Joint alone(const MicroBatch& batch, std::optional<int64_t> most_tokens) {
  Joint joint;
  joint.parts = parts_of(batch, most_tokens);
  for (size_t s = 0; s < static_cast<size_t>(batch.sequence_count()); ++s) joint.places.push_back({0, s});
  return joint;
}

Joint joined(std::span<const MicroBatch> window, const JointRules& rules) {
  Chosen silent, learning;
  std::vector<Place> generated;
  int64_t silent_rows = 0, left_out = 0, largest = 0;
  for (const MicroBatch& batch : window) largest = std::max(largest, batch.tokens());
  for (const auto& [b, s] : ordered(window)) {
    const bool skipped = rules.skips_silent && is_silent(window[b], s);
    if (!skipped) {
      learning.add(window, {b, s});
      continue;
    }
    ++silent_rows;
    const bool known = window[b].targets.columns.contains(kGenerated);
    if (window[b].sequence_labels[s] > 0 && !known) {
      silent.add(window, {b, s});
      continue;
    }
    left_out += window[b].sequence_tokens[s];
    if (known) generated.push_back({b, s});
  }
  if (silent_rows == 0 && !rules.share) return alone(window[0], rules.most_tokens);
  Joint joint;
  joint.batches = window.size();
  joint.silent_rows = silent_rows;
  joint.left_out = left_out;
  joint.generated = std::move(generated);
  append(silent, rules, largest, joint);
  joint.silent = joint.parts.size();
  append(learning, rules, largest, joint);
  return joint;
}

}  // namespace trl::train
