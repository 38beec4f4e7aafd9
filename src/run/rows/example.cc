#include "run/rows/example.h"

#include <utility>

#include "base/error.h"
#include "base/text/quantity.h"
#include "config/data_arguments.h"
#include "data/prepare/sft_tokens.h"
#include "data/tokenizer/open_tokenizer.h"
#include "text/tokenizer/decode_stream.h"

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

}  // namespace

base::Json describe_tokens(const std::vector<int32_t>& ids, const std::vector<int32_t>& labels,
                           const text::Tokenizer& tokenizer) {
  base::Json pieces = base::Json::array(), texts = pieces;
  text::DecodeStream stream(tokenizer, false);
  for (const int32_t id : ids) {
    pieces.push_back(tokenizer.id_to_token(id).value_or(std::string()));
    texts.push_back(stream.step(id));
  }
  if (!texts.empty()) texts.back() = texts.back().get<std::string>() + stream.finish();
  return {{"input_ids", ids}, {"labels", labels}, {"pieces", pieces}, {"texts", texts}};
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
  const auto source = dataset.source({.directory = {}, .memory = context.memory});
  const auto [first, text] = read_rows(*source, row);
  const data::SftTokens tokens(context, data::parse_row(first));
  const data::Example example = data::decode_example(tokens.record(text, row));
  base::Json json = {{"row", row}};
  json.update(describe_tokens(example.input_ids, example.labels, *training_tokenizer));
  return json;
}

}  // namespace trl::run
