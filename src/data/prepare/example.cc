// Labels: alternating runs of ignored and trained tokens, if every trained label is its id, else all of them
// as ids.
#include "data/prepare/example.h"

#include <utility>

#include "data/prepare/record_bytes.h"

namespace trl::data {

namespace {

bool trains_other_ids(const Example& example) {
  for (size_t i = 0; i < example.labels.size(); ++i)
    if (example.labels[i] != kIgnored && example.labels[i] != example.input_ids[i]) return true;
  return false;
}

std::vector<uint64_t> label_runs(const std::vector<int32_t>& labels) {
  std::vector<uint64_t> runs;
  bool trained = false;
  uint64_t length = 0;
  for (const int32_t label : labels) {
    if ((label != kIgnored) != trained) {
      runs.push_back(std::exchange(length, 0));
      trained = !trained;
    }
    ++length;
  }
  runs.push_back(length);
  return runs;
}

}  // namespace

std::string encode(const Example& example) {
  RecordWriter out;
  out.number(example.input_ids.size());
  out.ids(example.input_ids);
  const bool own_labels = trains_other_ids(example);
  out.number(own_labels ? 1 : 0);
  if (own_labels) {
    out.ids(example.labels);
  } else {
    const std::vector<uint64_t> runs = label_runs(example.labels);
    out.number(runs.size());
    for (const uint64_t run : runs) out.number(run);
  }
  out.number(example.seq_lengths.size());
  for (const int32_t length : example.seq_lengths) out.number(static_cast<uint64_t>(length));
  out.number(example.source_rows.size());
  for (const int64_t row : example.source_rows) out.number(static_cast<uint64_t>(row));
  return out.take();
}

Example decode_example(std::string_view bytes) {
  RecordReader in(bytes);
  Example example;
  example.input_ids = in.ids(in.count(sizeof(int32_t)));
  const size_t length = example.input_ids.size();
  if (in.number() != 0) {
    example.labels = in.ids(length);
  } else {
    example.labels.reserve(length);
    bool trained = false;
    for (size_t run = in.count(1); run > 0; --run, trained = !trained) {
      const uint64_t tokens = in.number();
      const size_t at = example.labels.size();
      if (tokens > length - at) RecordReader::fail_damaged();
      if (trained) {
        const auto begin = example.input_ids.begin() + static_cast<std::ptrdiff_t>(at);
        example.labels.insert(example.labels.end(), begin, begin + static_cast<std::ptrdiff_t>(tokens));
      } else {
        example.labels.resize(at + static_cast<size_t>(tokens), kIgnored);
      }
    }
    if (example.labels.size() != length) RecordReader::fail_damaged();
  }
  uint64_t documents = 0;
  for (size_t i = in.count(1); i > 0; --i) {
    const uint64_t tokens = in.number();
    if (tokens > length - documents) RecordReader::fail_damaged();
    documents += tokens;
    example.seq_lengths.push_back(static_cast<int32_t>(tokens));
  }
  if (documents != length) RecordReader::fail_damaged();
  for (size_t i = in.count(1); i > 0; --i) example.source_rows.push_back(static_cast<int64_t>(in.number()));
  in.finish();
  return example;
}

int64_t example_length(std::string_view bytes) {
  return static_cast<int64_t>(RecordReader(bytes).count(sizeof(int32_t)));
}

}  // namespace trl::data
