// trl_dataset_get_batch.
#include <filesystem>

#include "capi/config_handle.h"
#include "capi/dataset_handle.h"
#include "capi/guard.h"
#include "capi/prepare.h"
#include "capi/tokenizer_handle.h"
#include "capi/watched_call.h"
#include "config/data_arguments.h"
#include "data/open_tokenizer.h"
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
  config.set("output_dir", std::filesystem::temp_directory_path().string());
  return config;
}

base::Json read_batch(const Dataset& dataset, const Tokenizer& tokenizer, const config::Config& given,
                      int64_t number) {
  const config::Config config = without_output(given);
  const auto training_tokenizer =
      data::training_tokenizer(tokenizer.get(), config::data_arguments(dataset.apply_options(config)));
  const Prepared prepared = prepare(config, config::training_arguments(config), *training_tokenizer,
                                    *dataset.runtime(), dataset, nullptr);
  prepared.train->settle();
  engine::ErrorCapture error;
  error.check(prepared.train->start_epoch(0, 0, {}, error));
  engine::Batch batch;
  for (int64_t at = 0; at <= number; ++at) {
    base::poll();
    if (!error.check(prepared.train->next(&batch, error)))
      fail(Status::invalid_argument, "batch: {}: an epoch has {} batches", number, at);
  }
  base::Json json = describe_batch(batch, *training_tokenizer);
  json["batch"] = number;
  const int64_t batches = prepared.train->batches_per_epoch(), rows = prepared.train->rows();
  json["batches_per_epoch"] = batches < 0 ? base::Json() : base::Json(batches);
  json["rows"] = rows < 0 ? base::Json() : base::Json(rows);
  return json;
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
        if (batch < 0) trl::fail(trl::Status::invalid_argument, "batch: {} is below 0", batch);
        const trl::config::Config config = options_of(options);
        *out_json = rows->keep(
            watched(*rows->runtime(), [&] { return read_batch(*rows, *shared, config, batch); }).dump());
      },
      out_json);
}
