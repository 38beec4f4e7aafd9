// SFT's preparation: rows are read in blocks, each block tokenised on the pool, cut, and kept in source
// order, so that memory is bounded and nothing depends on the number of threads.
#include "data/sft.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "data/example_store.h"
#include "data/numpy_shuffle.h"
#include "data/sft_rows.h"

namespace trl::data {

namespace {

constexpr size_t kBlockRows = 1024;
constexpr size_t kSliceBytes = size_t{8} << 20;  // of text; a block ends with the row that passes it
constexpr int64_t kGrain = 8;

// What is told once, at the end.
struct Counts {
  int64_t read = 0;
  int64_t cut = 0;
  int64_t dropped = 0;
  std::string first_dropped;
  int64_t split = 0;  // rows whose prompt is no prefix of prompt and completion
  std::string first_split;
};

class Preparation {
 public:
  Preparation(Source& source, const PrepareContext& context)
      : source_(source), context_(context), store_(std::make_unique<ExampleStore>(*context.memory)) {}

  std::unique_ptr<Examples> run() {
    source_.rewind();
    while (read_block()) {
      if (!rows_) rows_.emplace(context_, block_.front());
      tokenize_block();
      keep_block();
    }
    finish();
    return std::move(store_);
  }

 private:
  bool read_block() {
    block_.clear();
    size_t bytes = 0;
    Row row;
    while (block_.size() < kBlockRows && bytes < kSliceBytes && source_.next(row)) {
      if (context_.cancel != nullptr) context_.cancel->check();
      bytes += row.bytes;
      block_.push_back(std::move(row));
    }
    return !block_.empty();
  }

  void tokenize_block() {
    tokens_.assign(block_.size(), {});
    context_.pool->parallel_for(static_cast<int64_t>(block_.size()), kGrain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        if (context_.cancel != nullptr) context_.cancel->check();
        const size_t at = static_cast<size_t>(i);
        tokens_[at] = rows_->tokens(block_[at]);
      }
    });
  }

  // Cut to max_length, and dropped when no trained token is left, as TRL does (only where there is a
  // max_length).
  void keep_block() {
    const config::SftDataArguments& arguments = *context_.arguments;
    const bool cuts = arguments.max_length.has_value() && !arguments.skip_prepare_dataset;
    for (size_t i = 0; i < tokens_.size(); ++i) {
      Tokens& tokens = tokens_[i];
      const int64_t source_row = counts_.read++;
      if (tokens.lost && counts_.split++ == 0)
        counts_.first_split = block_[i].where + ": '" + *tokens.lost + "'";
      if (cuts) counts_.cut += cut(tokens, static_cast<size_t>(*arguments.max_length)) ? 1 : 0;
      const auto first = std::find_if(tokens.labels.begin(), tokens.labels.end(),
                                      [](int32_t label) { return label != kIgnored; });
      if ((cuts && first == tokens.labels.end()) || tokens.ids.empty()) {
        if (counts_.dropped++ == 0) counts_.first_dropped = block_[i].where;
        continue;
      }
      // The first token of a row is predicted from nothing and trains nothing.
      any_trained_ =
          any_trained_ || std::any_of(std::max(first, tokens.labels.begin() + 1), tokens.labels.end(),
                                      [](int32_t label) { return label != kIgnored; });
      store_->add(tokens, source_row);
    }
  }

  bool cut(Tokens& tokens, size_t length) const {
    if (tokens.ids.size() <= length) return false;
    for (std::vector<int32_t>* values : {&tokens.ids, &tokens.labels}) {
      if (context_.arguments->truncation_keep_end) {
        values->erase(values->begin(), values->end() - static_cast<std::ptrdiff_t>(length));
      } else {
        values->resize(length);
      }
    }
    return true;
  }

  void finish() {
    if (counts_.read == 0) fail(Status::format, "{}: holds no rows", source_.name());
    const std::string limit = context_.arguments->max_length
                                  ? fmt::format("max_length {}", *context_.arguments->max_length)
                                  : "no max_length";
    if (store_->size() == 0 || !any_trained_) {
      fail(Status::format,
           "{}: nothing is left to train on: none of the {} rows keeps a trained token ({}, {} rows cut)",
           source_.name(), counts_.read, limit, counts_.cut);
    }
    if (counts_.dropped > 0) {
      context_.log->warning("data",
                            "{}: {} of {} rows dropped, since no trained token is left in them (the first: "
                            "{}); {} rows cut to {}",
                            source_.name(), counts_.dropped, counts_.read, counts_.first_dropped, counts_.cut,
                            limit);
    } else if (counts_.cut > 0) {
      context_.log->warning("data", "{}: {} of {} rows cut to {}; 0 rows dropped", source_.name(),
                            counts_.cut, counts_.read, limit);
    }
    if (counts_.split > 0) {
      context_.log->warning(
          "data",
          "{}: in {} of {} rows the tokens of the prompt do not begin those of prompt and completion; the "
          "completion starts where they part, and this end of the prompt is not trained on (the first: {})",
          source_.name(), counts_.split, counts_.read, counts_.first_split);
    }
    store_->set_completion_only_loss(rows_->completion_only_loss());
    if (context_.arguments->shuffle_dataset)
      store_->reorder(numpy_permutation(context_.seed, store_->size()));
    context_.log->info("data", "{}: {} rows, {} tokens", source_.name(), store_->size(),
                       store_->total_tokens());
  }

  Source& source_;
  const PrepareContext& context_;
  std::unique_ptr<ExampleStore> store_;
  std::optional<SftRows> rows_;
  std::vector<Row> block_;
  std::vector<Tokens> tokens_;
  Counts counts_;
  bool any_trained_ = false;
};

}  // namespace

std::unique_ptr<Examples> prepare_sft(Source& source, const PrepareContext& context) {
  return Preparation(source, context).run();
}

}  // namespace trl::data
