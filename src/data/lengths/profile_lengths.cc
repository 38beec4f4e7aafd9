// See profile_lengths.h. Rows are read in blocks and each block is tokenised on the pool; only counts and
// lengths of them are kept.
#include "data/lengths/profile_lengths.h"

#include <algorithm>
#include <bit>
#include <chrono>

#include "base/error.h"
#include "base/interrupt.h"
#include "base/text/number.h"
#include "data/lengths/length_layouts.h"
#include "data/prepare/counts.h"
#include "data/row/preference_columns.h"

namespace trl::data {

namespace {

using telemetry::LengthDistribution;
using telemetry::LengthLimit;
using telemetry::LengthProfile;

constexpr size_t kMeasuredRows = 4096;
constexpr size_t kMeasuredBytes = size_t{4} << 20;  // bytes of text; a block ends with the row that passes it
constexpr int64_t kMeasureGrain = 8;
constexpr int64_t kLongestPower = int64_t{1} << 30;
constexpr std::chrono::seconds kTellEvery{10};

class Profiler {
 public:
  Profiler(Source& source, const PrepareContext& context, const ProfileOptions& options)
      : source_(source), context_(context), options_(options), limits_(options.max_lengths) {
    if (limits_.empty()) {
      for (int64_t power = 1; power <= kLongestPower; power *= 2) limits_.push_back(power);
      if (options.max_length > 0) limits_.push_back(options.max_length);
    }
    std::ranges::sort(limits_);
    limits_.erase(std::unique(limits_.begin(), limits_.end()), limits_.end());
  }

  LengthProfile run() {
    source_.rewind();
    while (read_block()) {
      if (!measurer_) measurer_.emplace(context_, block_.front());
      measure_block();
      count_block();
      tell();
    }
    if (counts_.read == 0) fail(Status::format, "{}: holds no rows", source_.name());
    counts_.report_short_rows(source_.name(), *context_.log);
    LengthProfile out;
    out.name = source_.name();
    out.format = measurer_->format();
    out.rows = counts_.read;
    out.batch_size = options_.order.batch_size;
    out.accumulation = options_.gradient_accumulation_steps;
    add_distributions(out);
    out.tokens = total_.tokens_above(0) + rejected_.tokens_above(0);
    add_limits(out);
    return out;
  }

 private:
  bool read_block() {
    block_.clear();
    size_t bytes = 0;
    RowText text;
    base::progress("tokenize", counts_.read, -1);
    while (block_.size() < kMeasuredRows && bytes < kMeasuredBytes && source_.next_text(text)) {
      base::poll();
      counts_.add_row(text);
      block_.push_back(parse_row(text));
      bytes += block_.back().bytes;
    }
    return !block_.empty();
  }

  void measure_block() {
    measures_.assign(block_.size(), {});
    context_.pool->parallel_for(
        static_cast<int64_t>(block_.size()), kMeasureGrain, [&](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i) {
            base::poll();
            measures_[static_cast<size_t>(i)] = measurer_->measure(block_[static_cast<size_t>(i)]);
          }
        });
  }

  void count_block() {
    for (size_t i = 0; i < block_.size(); ++i) {
      const auto& [row, rejected] = measures_[i];
      if (row.total > INT32_MAX)
        fail(Status::format, "{}: the row has {} tokens; at most {} are counted", block_[i].where, row.total,
             INT32_MAX);
      total_.add(row.total);
      prompt_.add(row.total - row.trained);
      completion_.add(row.trained);
      if (measurer_->preference()) {
        rejected_.add(rejected.total);
        longer_.add(std::max(row.total, rejected.total));
      } else {
        const auto first = std::ranges::lower_bound(limits_, row.needed);
        rows_.add(static_cast<uint32_t>(row.total), static_cast<uint8_t>(first - limits_.begin()));
      }
    }
  }

  // Reports progress: a large file takes a while.
  void tell() {
    const auto now = std::chrono::steady_clock::now();
    if (now - told_ < kTellEvery) return;
    told_ = now;
    context_.log->info("data", "{}: {} read", source_.name(), base::quantity(counts_.read, "row"));
  }

  void add_distributions(LengthProfile& out) const {
    if (measurer_->preference()) {
      const std::string prefix = measurer_->has_prompt() ? "prompt+" : "";
      out.lengths.push_back(total_.distribution(prefix + "chosen"));
      out.lengths.push_back(rejected_.distribution(prefix + "rejected"));
      if (measurer_->has_prompt()) out.lengths.push_back(prompt_.distribution("prompt"));
      return;
    }
    out.lengths.push_back(total_.distribution("total"));
    if (prompt_.tokens_above(0) == 0) return;
    out.lengths.push_back(prompt_.distribution("prompt"));
    out.lengths.push_back(completion_.distribution("completion"));
  }

  bool is_shown(int64_t limit, const LengthDistribution& lengths) const {
    if (!options_.max_lengths.empty() || limit == options_.max_length) return true;
    const auto median = static_cast<uint64_t>(std::max(1.0, lengths.percentile(50)));
    const auto longest = static_cast<uint64_t>(std::max<int64_t>(1, lengths.max));
    return std::has_single_bit(static_cast<uint64_t>(limit)) &&
           static_cast<uint64_t>(limit) >= std::bit_floor(median) &&
           static_cast<uint64_t>(limit) <= std::bit_ceil(longest);
  }

  void add_limits(LengthProfile& out) const {
    const LengthDistribution lengths = (measurer_->preference() ? longer_ : total_).distribution("");
    LayoutOptions layouts;
    layouts.order = options_.order;
    layouts.grouped = options_.grouped;
    layouts.accumulation = options_.gradient_accumulation_steps;
    layouts.pad_to_multiple_of = context_.arguments->pad_to_multiple_of.value_or(1);
    layouts.shuffle = context_.arguments->shuffle_dataset;
    layouts.seed = context_.seed;
    for (size_t i = 0; i < limits_.size(); ++i) {
      if (!is_shown(limits_[i], lengths)) continue;
      LengthLimit& limit = out.limits.emplace_back();
      limit.max_length = limits_[i];
      limit.tokens_cut = total_.tokens_above(limits_[i]) + rejected_.tokens_above(limits_[i]);
      limit.rows_cut = (measurer_->preference() ? longer_ : total_).rows_above(limits_[i]);
      if (!measurer_->preference()) lay_out(rows_, static_cast<uint8_t>(i), layouts, *context_.pool, limit);
    }
  }

  Source& source_;
  const PrepareContext& context_;
  const ProfileOptions& options_;
  std::vector<int64_t> limits_;  // sorted
  std::optional<RowMeasurer> measurer_;
  std::vector<Row> block_;
  std::vector<std::array<RowMeasure, 2>> measures_;
  LengthCounts total_, prompt_, completion_, rejected_, longer_;
  RowLengths rows_;
  Counts counts_;
  std::chrono::steady_clock::time_point told_ = std::chrono::steady_clock::now();
};

bool is_preference(const Row& row, const std::string& text_field) {
  if (find_column(row, "chosen") == nullptr || find_column(row, "rejected") == nullptr) return false;
  for (const std::string& column : {text_field, std::string("messages"), std::string("input_ids")})
    if (find_column(row, column) != nullptr) return false;
  return find_column(row, "completion") == nullptr;
}

}  // namespace

telemetry::LengthProfile profile_lengths(Source& source, const PrepareContext& context,
                                         const ProfileOptions& options) {
  return Profiler(source, context, options).run();
}

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
  out.where = row.where;
  out.where.part = fmt::format("'{}' as completion", column);
  Row all = row;
  select_columns(all, given_.dataset_select_columns);
  rename_columns(all, given_.dataset_columns);
  convert_to_chatml(all);
  const base::Json* answer = find_column(all, column);
  if (answer == nullptr) fail_column(all, column, "what the preference is about");
  out.value = base::Json::object();
  for (const char* beside : {"prompt", "tools", "chat_template_kwargs"})
    if (const base::Json* value = find_column(all, beside)) out.value[beside] = *value;
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
  out.trained = std::ranges::count_if(labels, is_trained);
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
