// Checks that the weights of KTO's rows balance both labels.
#pragma once
#include "base/log.h"
#include "data/prepare/counts.h"
#include "data/prepare/prepare_context.h"

namespace trl::data {

// Warns if all rows have one label, and, in TRL's words, if the weights do not compensate for more rows of
// one label than of the other (Eq. 8 of Ethayarajh et al. 2024). name: of the dataset.
void tell_balance(const Counts& counts, std::string_view name, const LabelWeights& weights,
                  base::LogSink& log);

}  // namespace trl::data
