// Shows one row as a run would train on it.
#pragma once
#include <cstdint>
#include <vector>

#include "base/json/json.h"
#include "config/config.h"
#include "run/rows/rows.h"
#include "run/tokenizer.h"

namespace trl::run {

// Returns {input_ids, labels, pieces, texts}: each token's own bytes, and its contribution to the text.
base::Json describe_tokens(const std::vector<int32_t>& ids, const std::vector<int32_t>& labels,
                           const text::Tokenizer& tokenizer);

// Returns {row, input_ids, labels, pieces, texts}. config: with the options of the rows.
base::Json read_example(const Rows& rows, const Tokenizer& tokenizer, const config::Config& config,
                        int64_t row);

}  // namespace trl::run
