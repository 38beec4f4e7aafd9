// One row as a run would train on it.
#pragma once
#include <cstdint>

#include "base/json/json.h"
#include "config/config.h"
#include "run/rows/rows.h"
#include "run/tokenizer.h"

namespace trl::run {

// {row, input_ids, labels, pieces, texts}. config: with the options of the rows.
base::Json read_example(const Rows& rows, const Tokenizer& tokenizer, const config::Config& config,
                        int64_t row);

}  // namespace trl::run
