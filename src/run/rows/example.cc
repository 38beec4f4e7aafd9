#include "run/rows/prepare.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/files/files.h"
#include "base/text/number.h"
#include "data/tokenizer/open_tokenizer.h"
#include "run/open_model.h"
#include "run/rows/context.h"

namespace trl::run {
namespace {

// Reads the row with this number, and the first one, which decides what holds for all.
std::pair<data::RowText, data::RowText> read_rows(data::Source& source, int64_t row) {
  source.rewind();
  data::RowText first, text;
  for (int64_t at = 0; at <= row; ++at) {
    base::poll();
    if (!source.next_text(text))
      fail(Status::invalid_argument, "row: {}: {} has {}", row, source.name(), base::quantity(at, "row"));
    if (at == 0) first = text;
  }
  return {std::move(first), std::move(text)};
}

// Returns {input_ids, labels, pieces, texts}: each token's own bytes, and its contribution to the text. An id
// that only the model has adds nothing to the text.
base::Json describe_tokens(const std::vector<int32_t>& ids, const std::vector<int32_t>& labels,
                           const text::Tokenizer& tokenizer) {
  base::Json pieces = base::Json::array(), texts = pieces;
  text::DecodeStream stream(tokenizer, false);
  for (const int32_t id : ids) {
    pieces.push_back(tokenizer.id_to_token(id).value_or(std::string()));
    texts.push_back(id < tokenizer.vocab_size() ? stream.step(id) : std::string());
  }
  if (!texts.empty()) texts.back() = texts.back().get<std::string>() + stream.finish();
  return {{"input_ids", ids}, {"labels", labels}, {"pieces", pieces}, {"texts", texts}};
}

// Returns the segments of a sequence, given its last one: from the first token to the last.
std::vector<int32_t> path_to(const data::Batch& batch, int32_t last) {
  std::vector<int32_t> path{last};
  const auto parent = [&](int32_t of) {
    return batch.parents.empty() ? -1 : batch.parents[static_cast<size_t>(of)];
  };
  while (parent(path.back()) >= 0) path.push_back(parent(path.back()));
  std::ranges::reverse(path);
  return path;
}

base::Json describe_sequence(const data::Batch& batch, int32_t last, const text::Tokenizer& tokenizer) {
  std::vector<int32_t> ids, labels;
  for (const int32_t segment : path_to(batch, last)) {
    const auto at = static_cast<size_t>(segment);
    const int32_t begin = batch.cu_seqlens[at], end = batch.cu_seqlens[at + 1];
    ids.insert(ids.end(), batch.input_ids.begin() + begin, batch.input_ids.begin() + end);
    labels.insert(labels.end(), batch.labels.begin() + begin, batch.labels.begin() + end);
  }
  return describe_tokens(ids, labels, tokenizer);
}

base::Json describe_batch(const data::Batch& batch, const text::Tokenizer& tokenizer) {
  base::Json sequences = base::Json::array(), columns = base::Json::object();
  for (const int32_t last : batch.sequences) sequences.push_back(describe_sequence(batch, last, tokenizer));
  for (int32_t one = 0; batch.sequences.empty() && one < batch.segments(); ++one)
    sequences.push_back(describe_sequence(batch, one, tokenizer));
  for (const auto& [name, values] : batch.columns) columns[name] = values;
  return {{"row_ids", batch.row_ids}, {"sequences", sequences}, {"columns", columns}};
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
  context.vocab_size = ids_of_rows(config, tokenizer);
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
      prepared_(prepare(dataset.environment(), config_, config::training_arguments(config_),
                        named_model(config_), *tokenizer_, dataset, nullptr)),
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
      fail(Status::invalid_argument, "first: {}: an epoch has {} {}", number, number_ + 1,
           number_ == 0 ? "batch" : "batches");
  }
}

base::Json Epoch::describe() const {
  base::Json json = describe_batch(*batch_, *tokenizer_);
  json["whole_lengths"] = whole_.lengths(json["row_ids"]);
  json["batch"] = number_;
  const int64_t batches = prepared_.train->batches_per_epoch(), rows = prepared_.train->rows();
  json["batches_per_epoch"] = batches < 0 ? base::Json() : base::Json(batches);
  json["rows"] = rows < 0 ? base::Json() : base::Json(rows);
  return json;
}

base::Json read_example(const Rows& dataset, const Tokenizer& tokenizer, const config::Config& config,
                        int64_t row) {
  if (config.method().rows != config::RowForm::text) {
    fail_key("method", "method: {}: rows of preferences are not shown yet; those of {} are",
             config.method().name, config::methods().front().name);
  }
  const config::DataArguments arguments = config::data_arguments(config);
  const auto training_tokenizer = data::training_tokenizer(tokenizer.get(), arguments);
  data::PrepareContext context;
  context.tokenizer = training_tokenizer.get();
  context.arguments = &arguments;
  context.log = &dataset.environment().log();
  context.memory = &dataset.environment().memory();
  context.vocab_size = ids_of_rows(config, *training_tokenizer);
  const auto source = dataset.source({.directory = {}, .memory = context.memory});
  const auto [first, text] = read_rows(*source, row);
  const data::SftTokens tokens(context, data::parse_row(first));
  const data::Example example = data::decode_example(tokens.record(text, row));
  base::Json json = {{"row", row}};
  json.update(describe_tokens(example.input_ids, example.labels, *training_tokenizer));
  return json;
}

}  // namespace trl::run
