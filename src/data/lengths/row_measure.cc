// See row_measure.h.
#include "data/lengths/row_measure.h"

#include <algorithm>

#include "base/error.h"
#include "data/row/preference_columns.h"

namespace trl::data {

namespace {

bool is_preference(const Row& row, const std::string& text_field) {
  if (find_column(row, "chosen") == nullptr || find_column(row, "rejected") == nullptr) return false;
  for (const std::string& column : {text_field, std::string("messages"), std::string("input_ids")}) {
    if (find_column(row, column) != nullptr) return false;
  }
  return find_column(row, "completion") == nullptr;
}

}  // namespace

RowMeasurer::RowMeasurer(const PrepareContext& context, const Row& first)
    : given_(*context.arguments), arguments_(given_), context_(context) {
  context_.arguments = &arguments_;
  Row row = first;
  select_columns(row, given_.dataset_select_columns);
  rename_columns(row, given_.dataset_columns);
  preference_ = is_preference(row, arguments_.dataset_text_field);
  if (preference_) {
    row = side(first, "chosen");
    format_ = format_of(row, arguments_.dataset_text_field);
    arguments_.dataset_columns.clear();  // side() has done it
    arguments_.dataset_select_columns.clear();
    arguments_.completion_only_loss.reset();
    arguments_.assistant_only_loss = false;
    rows_.emplace(context_, row);
    return;
  }
  rows_.emplace(context_, first);
  format_ = rows_->format();
  const bool columns = format_ == Format::prompt_completion || format_ == Format::prompt_completion_messages;
  all_trained_ = columns && arguments_.completion_only_loss == false && !arguments_.assistant_only_loss;
  if (!all_trained_) return;
  context_.completion_only_loss = true;  // so that the labels show where the completion begins
  rows_.emplace(context_, first);
}

std::string RowMeasurer::format() const {
  if (!preference_) return std::string(format_name(format_));
  const bool text = format_ == Format::text || format_ == Format::prompt_completion;
  return fmt::format("{}chosen and rejected as {}", has_prompt() ? "prompt, " : "",
                     text ? "text" : "messages");
}

// Turns a preference row into a row of SFT.
Row RowMeasurer::side(const Row& row, const char* column) const {
  Row out;
  out.where = fmt::format("{} ('{}' as completion)", row.where, column);
  Row all = row;
  select_columns(all, given_.dataset_select_columns);
  rename_columns(all, given_.dataset_columns);
  convert_to_chatml(all);
  const base::Json* answer = find_column(all, column);
  if (answer == nullptr) fail_column(all, column, "what the preference is about");
  out.value = base::Json::object();
  for (const char* beside : {"prompt", "tools", "chat_template_kwargs"}) {
    if (const base::Json* value = find_column(all, beside)) out.value[beside] = *value;
  }
  const bool prompt = find_column(all, "prompt") != nullptr;
  out.value[prompt                ? "completion"
            : answer->is_string() ? arguments_.dataset_text_field
                                  : "messages"] = *answer;
  return out;
}

RowMeasure RowMeasurer::measured(const Tokens& tokens) const {
  const auto is_trained = [](int32_t label) { return label != kIgnored; };
  const std::vector<int32_t>& labels = tokens.labels;
  RowMeasure out;
  out.total = static_cast<int64_t>(labels.size());
  out.trained = std::count_if(labels.begin(), labels.end(), is_trained);
  const auto from = [&](auto begin, auto end) { return std::find_if(begin, end, is_trained) - begin + 1; };
  if (out.total == 0 || (out.trained == 0 && !all_trained_)) {
    out.needed = RowMeasure::kNever;
  } else if (all_trained_) {
    out.needed = 1;
  } else {
    out.needed = arguments_.truncation_keep_end ? from(labels.rbegin(), labels.rend())
                                                : from(labels.begin(), labels.end());
  }
  return out;
}

std::array<RowMeasure, 2> RowMeasurer::measure(Row& row) const {
  if (!preference_) return {measured(rows_->tokens(row)), {}};
  Row rejected = side(row, "rejected");
  row = side(row, "chosen");
  return {measured(rows_->tokens(row)), measured(rows_->tokens(rejected))};
}

}  // namespace trl::data
