#include "run/rows/epoch.h"

#include <algorithm>

#include "base/files/files.h"
#include "data/tokenizer/open_tokenizer.h"
#include "run/rows/example.h"

namespace trl::run {
namespace {

// Returns the segments of a sequence, given its last one: from the first token to the last.
std::vector<int32_t> path_to(const engine::Batch& batch, int32_t last) {
  std::vector<int32_t> path{last};
  while (batch.parents != nullptr && batch.parents[path.back()] >= 0)
    path.push_back(batch.parents[path.back()]);
  std::reverse(path.begin(), path.end());
  return path;
}

base::Json describe_sequence(const engine::Batch& batch, int32_t last, const text::Tokenizer& tokenizer) {
  std::vector<int32_t> ids, labels;
  for (const int32_t segment : path_to(batch, last)) {
    const int32_t begin = batch.cu_seqlens[segment], end = batch.cu_seqlens[segment + 1];
    ids.insert(ids.end(), batch.input_ids + begin, batch.input_ids + end);
    labels.insert(labels.end(), batch.labels + begin, batch.labels + end);
  }
  return describe_tokens(ids, labels, tokenizer);
}

base::Json describe_batch(const engine::Batch& batch, const text::Tokenizer& tokenizer) {
  base::Json sequences = base::Json::array(), columns = base::Json::object(), rows = base::Json::array();
  if (!batch.sequences.empty()) {
    for (const int32_t last : batch.sequences) sequences.push_back(describe_sequence(batch, last, tokenizer));
  } else {
    for (int32_t one = 0; one < batch.documents; ++one)
      sequences.push_back(describe_sequence(batch, one, tokenizer));
  }
  for (const engine::SequenceColumn& column : batch.columns)
    columns[std::string(column.name)] = std::vector<float>(column.values.begin(), column.values.end());
  for (int64_t i = 0; i < batch.row_id_count; ++i) rows.push_back(batch.row_ids[i]);
  return {{"row_ids", rows}, {"sequences", sequences}, {"columns", columns}};
}

// Changes a configuration so that rows prepared only for inspection are kept in memory or in an unnamed file.
config::Config without_output(config::Config config) {
  config.set("output_dir", base::temporary_directory());
  return config;
}

}  // namespace

WholeRows::WholeRows(const Rows& dataset, const config::Config& config, const text::Tokenizer& tokenizer)
    : arguments_(config::data_arguments(dataset.apply_options(config))) {
  if (config.method().rows != config::RowForm::text || arguments_.packing == config::Packing::wrapped ||
      arguments_.streaming || !dataset.shareable())
    return;
  arguments_.max_length.reset();
  table_ = dataset.table({.directory = {}, .memory = &dataset.environment().memory()});
  data::PrepareContext context;
  context.tokenizer = &tokenizer;
  context.arguments = &arguments_;
  context.log = &log_;
  rows_.emplace(context, data::first_row(*table_));
}

base::Json WholeRows::lengths(const base::Json& rows) const {
  if (!rows_) return nullptr;
  base::Json out = base::Json::array();
  std::vector<data::RowText> texts;
  for (const base::Json& row : rows) {
    const int64_t source_row = row;
    table_->fetch({&source_row, 1}, texts);
    out.push_back(data::decode_example(rows_->record(texts.front(), source_row)).input_ids.size());
  }
  return out;
}

Epoch::Epoch(const Rows& dataset, const Tokenizer& tokenizer, const config::Config& given)
    : config_(without_output(given)),
      tokenizer_(
          data::training_tokenizer(tokenizer.get(), config::data_arguments(dataset.apply_options(config_)))),
      prepared_(prepare(dataset.environment(), config_, config::training_arguments(config_), *tokenizer_,
                        dataset, nullptr)),
      whole_(dataset, config_, *tokenizer_) {
  prepared_.train->settle();
  error_.check(prepared_.train->start_epoch(0, 0, {}, error_));
}

bool Epoch::next() {
  base::poll();
  if (!error_.check(prepared_.train->next(&batch_, error_))) return false;
  ++number_;
  return true;
}

void Epoch::find(int64_t number) {
  while (number_ < number) {
    if (!next())
      fail(Status::invalid_argument, "batch: {}: an epoch has {} {}", number, number_ + 1,
           number_ == 0 ? "batch" : "batches");
  }
}

base::Json Epoch::describe() const {
  base::Json json = describe_batch(batch_, *tokenizer_);
  json["whole_lengths"] = whole_.lengths(json["row_ids"]);
  json["batch"] = number_;
  const int64_t batches = prepared_.train->batches_per_epoch(), rows = prepared_.train->rows();
  json["batches_per_epoch"] = batches < 0 ? base::Json() : base::Json(batches);
  json["rows"] = rows < 0 ? base::Json() : base::Json(rows);
  return json;
}

}  // namespace trl::run
