// trl_dataset_get_batch and trl_dataset_visit_batches.
#include <optional>

#include "base/files.h"
#include "capi/callback.h"
#include "capi/config_handle.h"
#include "capi/dataset_handle.h"
#include "capi/guard.h"
#include "capi/prepare.h"
#include "capi/tokenizer_handle.h"
#include "config/data_arguments.h"
#include "data/open_tokenizer.h"
#include "data/sft_tokens.h"
#include "engine/error_capture.h"
#include "text/tokenizer/decode_stream.h"

namespace trl::capi {
namespace {

// The segments of a sequence, its last one given: from the first token to the last.
std::vector<int32_t> path_to(const engine::Batch& batch, int32_t last) {
  std::vector<int32_t> path{last};
  while (batch.parents != nullptr && batch.parents[path.back()] >= 0)
    path.push_back(batch.parents[path.back()]);
  std::reverse(path.begin(), path.end());
  return path;
}

base::Json describe_sequence(const engine::Batch& batch, int32_t last, const text::Tokenizer& tokenizer) {
  base::Json ids = base::Json::array(), labels = ids, pieces = ids, texts = ids;
  text::DecodeStream stream(tokenizer, false);
  for (const int32_t segment : path_to(batch, last)) {
    for (int32_t at = batch.cu_seqlens[segment]; at < batch.cu_seqlens[segment + 1]; ++at) {
      ids.push_back(batch.input_ids[at]);
      labels.push_back(batch.labels[at]);
      pieces.push_back(tokenizer.id_to_token(batch.input_ids[at]).value_or(std::string()));
      texts.push_back(stream.step(batch.input_ids[at]));
    }
  }
  if (!texts.empty()) texts.back() = texts.back().get<std::string>() + stream.finish();
  return {{"input_ids", ids}, {"labels", labels}, {"pieces", pieces}, {"texts", texts}};
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

// Rows that are prepared for a look are kept in memory or in a file without a name.
config::Config without_output(config::Config config) {
  config.set("output_dir", base::temporary_directory());
  return config;
}

// How many tokens rows have before they are cut. Those of a wrapped pack begin anywhere, and the rows of a
// host and streamed ones are not read again.
class WholeRows {
 public:
  WholeRows(const Dataset& dataset, const config::Config& config, const text::Tokenizer& tokenizer)
      : arguments_(config::data_arguments(dataset.apply_options(config))) {
    if (config.method() != "sft" || arguments_.packing == config::Packing::wrapped || arguments_.streaming ||
        !dataset.shareable())
      return;
    arguments_.max_length.reset();
    table_ = dataset.table({.directory = {}, .memory = &process().memory()});
    data::PrepareContext context;
    context.tokenizer = &tokenizer;
    context.arguments = &arguments_;
    context.log = &log_;
    rows_.emplace(context, data::first_row(*table_));
  }
  // Of these rows; null: not known.
  base::Json lengths(const base::Json& rows) const {
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

 private:
  config::DataArguments arguments_;
  base::NullLog log_;
  std::shared_ptr<const data::Table> table_;
  std::optional<data::SftTokens> rows_;
};

// The batches of the first epoch, one after the other.
class Epoch {
 public:
  Epoch(const Dataset& dataset, const Tokenizer& tokenizer, const config::Config& given)
      : config_(without_output(given)),
        tokenizer_(data::training_tokenizer(tokenizer.get(),
                                            config::data_arguments(dataset.apply_options(config_)))),
        prepared_(prepare(config_, config::training_arguments(config_), *tokenizer_, *dataset.runtime(),
                          dataset, nullptr)),
        whole_(dataset, config_, *tokenizer_) {
    prepared_.train->settle();
    error_.check(prepared_.train->start_epoch(0, 0, {}, error_));
  }
  int64_t number() const { return number_; }
  bool next() {
    base::poll();
    if (!error_.check(prepared_.train->next(&batch_, error_))) return false;
    ++number_;
    return true;
  }
  // Moves to the batch with this number, from 0.
  void find(int64_t number) {
    while (number_ < number) {
      if (!next())
        fail(Status::invalid_argument, "batch: {}: an epoch has {} {}", number, number_ + 1,
             number_ == 0 ? "batch" : "batches");
    }
  }
  base::Json describe() const {
    base::Json json = describe_batch(batch_, *tokenizer_);
    json["whole_lengths"] = whole_.lengths(json["row_ids"]);
    json["batch"] = number_;
    const int64_t batches = prepared_.train->batches_per_epoch(), rows = prepared_.train->rows();
    json["batches_per_epoch"] = batches < 0 ? base::Json() : base::Json(batches);
    json["rows"] = rows < 0 ? base::Json() : base::Json(rows);
    return json;
  }

 private:
  const config::Config config_;
  const std::unique_ptr<text::Tokenizer> tokenizer_;
  const Prepared prepared_;
  const WholeRows whole_;
  engine::ErrorCapture error_;
  engine::Batch batch_;
  int64_t number_ = -1;
};

void visit(Epoch& epoch, int64_t first, int64_t count, trl_batch_fn on_batch, void* user_data) {
  epoch.find(first);
  for (int64_t left = count; left > 0; --left) {
    const std::string json = epoch.describe().dump();
    const int32_t code =
        call_host("on_batch", [&] { return on_batch(user_data, json.c_str(), json.size()); });
    if (code < 0) fail_callback("on_batch", code);
    if (code > 0 || !epoch.next()) return;
  }
}

void check_batch(int64_t batch) {
  if (batch < 0) fail(Status::invalid_argument, "batch: {} is below 0", batch);
}

}  // namespace
}  // namespace trl::capi

using namespace trl::capi;

trl_status trl_dataset_get_batch(const trl_dataset* dataset, const trl_tokenizer* tokenizer,
                                 const trl_config* options, int64_t batch, const char** out_json,
                                 trl_error** error) noexcept {
  return guard(
      error,
      [&] {
        const auto rows = get(dataset, "dataset");
        const auto shared = get(tokenizer, "tokenizer");
        need(out_json, "out_json");
        check_batch(batch);
        const trl::config::Config config = options_of(options);
        const RuntimeScope scope(*rows->runtime());
        Epoch epoch(*rows, *shared, config);
        epoch.find(batch);
        *out_json = rows->keep(epoch.describe().dump());
      },
      out_json);
}

trl_status trl_dataset_visit_batches(const trl_dataset* dataset, const trl_tokenizer* tokenizer,
                                     const trl_config* options, int64_t first, int64_t count,
                                     trl_batch_fn on_batch, void* user_data, trl_error** error) noexcept {
  return guard(error, [&] {
    const auto rows = get(dataset, "dataset");
    const auto shared = get(tokenizer, "tokenizer");
    if (on_batch == nullptr) fail_null("on_batch");
    check_batch(first);
    if (count < 0) trl::fail(trl::Status::invalid_argument, "count: {} is below 0", count);
    const trl::config::Config config = options_of(options);
    const RuntimeScope scope(*rows->runtime());
    Epoch epoch(*rows, *shared, config);
    visit(epoch, first, count, on_batch, user_data);
  });
}
