// A micro-batch without padding: the one layout that libtrl.so fills and the engine reads.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace trl::data {

// Named values, one for each sequence or for each token.
using Columns = std::map<std::string, std::vector<float>, std::less<>>;

// The column of tokens that says which are padding at the end of a sequence (1; others: 0). No token sees
// them, themselves included; a loss counts them in metrics alone.
inline constexpr std::string_view kPadding = "padding";

// The rows of a micro-batch: all that does not depend on where its tokens are kept. Numbers named after TRL's
// are of TRL's batch, which is padded.
struct BatchRows {
  // Indices in the source.
  std::vector<int64_t> row_ids;
  // Prepared rows; a packed row is one.
  int64_t rows = 0;
  // The width of TRL's input_ids, and its elements.
  int64_t width = 0, input_numel = 0;
  // The part of num_tokens: the sum of the attention mask, or the row's width.
  int64_t num_tokens = 0;
  // The part of num_input_tokens_seen (non_padding): the sum of the attention mask, or without one the tokens
  // that are not the pad token.
  int64_t non_padding_tokens = 0;
  // The last segment of each sequence; empty: each segment is a sequence.
  std::vector<int32_t> sequences;
  // By sequence, such as a label or a margin.
  Columns columns;
  // The divisor of a loss over more rows than these: tokens of a whole generation. 0: there is none.
  int64_t items = 0;
  // Values that belong to the record of the step, reported with these rows.
  std::vector<std::pair<std::string, double>> metrics = {};
};

// Segments follow one another. A segment attends to itself, its parent and all that its parent attends to; if
// no segment has a parent, segments are documents. A sequence is the unit of a loss: its last segment and all
// segments above that one. labels are TRL's, not shifted: a token is predicted from the token before it in
// its sequence, in each sequence that contains it; -100 is ignored; the first token of a sequence never
// counts.
struct Batch : BatchRows {
  // [tokens]; position_ids are from 0 in each sequence.
  std::vector<int32_t> input_ids, labels, position_ids;
  // [tokens], such as log-probabilities or advantages. The value of a target is that of the predicted token.
  Columns token_columns;
  // [segments + 1], from 0 to tokens.
  std::vector<int32_t> cu_seqlens;
  // [segments], in depth-first order: the segment that this one continues, which is before it, or -1; empty:
  // no segment has a parent.
  std::vector<int32_t> parents;

  int64_t tokens() const { return std::ssize(input_ids); }
  int64_t segments() const { return std::ssize(cu_seqlens) - 1; }
};

}  // namespace trl::data
