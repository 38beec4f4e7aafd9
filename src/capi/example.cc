// trl_dataset_get_example.
#include "base/quantity.h"
#include "capi/config_handle.h"
#include "capi/dataset_handle.h"
#include "capi/guard.h"
#include "capi/process.h"
#include "capi/tokenizer_handle.h"
#include "config/data_arguments.h"
#include "data/open_tokenizer.h"
#include "data/sft_tokens.h"
#include "text/tokenizer/decode_stream.h"

namespace trl::capi {
namespace {

// The row with this number, and the first one, which decides what holds for all.
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

base::Json describe(const data::Example& example, int64_t row, const text::Tokenizer& tokenizer) {
  base::Json texts = base::Json::array(), pieces = base::Json::array();
  text::DecodeStream stream(tokenizer, false);
  for (const int32_t id : example.input_ids) {
    texts.push_back(stream.step(id));
    pieces.push_back(tokenizer.id_to_token(id).value_or(std::string()));
  }
  if (!texts.empty()) texts.back() = texts.back().get<std::string>() + stream.finish();
  return {{"row", row},
          {"input_ids", example.input_ids},
          {"labels", example.labels},
          {"pieces", pieces},
          {"texts", texts}};
}

base::Json read_example(const Dataset& dataset, const Tokenizer& tokenizer, const config::Config& config,
                        int64_t row) {
  if (config.method() != "sft") {
    fail_key("method", "method: {}: rows of preferences are not shown yet; those of sft are",
             config.method());
  }
  const config::DataArguments arguments = config::data_arguments(config);
  const auto training_tokenizer = data::training_tokenizer(tokenizer.get(), arguments);
  data::PrepareContext context;
  context.tokenizer = training_tokenizer.get();
  context.arguments = &arguments;
  context.log = dataset.runtime()->log().get();
  context.memory = &process().memory();
  const auto source = dataset.source({.directory = {}, .memory = context.memory});
  const auto [first, text] = read_rows(*source, row);
  const data::SftTokens tokens(context, data::parse_row(first));
  return describe(data::decode_example(tokens.record(text, row)), row, *training_tokenizer);
}

}  // namespace
}  // namespace trl::capi

using namespace trl::capi;

trl_status trl_dataset_get_example(const trl_dataset* dataset, const trl_tokenizer* tokenizer,
                                   const trl_config* options, int64_t row, const char** out_json,
                                   trl_error** error) noexcept {
  return guard(
      error,
      [&] {
        const auto rows = get(dataset, "dataset");
        const auto shared = get(tokenizer, "tokenizer");
        need(out_json, "out_json");
        if (row < 0) trl::fail(trl::Status::invalid_argument, "row: {} is below 0", row);
        const trl::config::Config config = rows->apply_options(options_of(options));
        const RuntimeScope scope(*rows->runtime());
        *out_json = rows->keep(read_example(*rows, *shared, config, row).dump());
      },
      out_json);
}
