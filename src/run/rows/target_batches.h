// Batches of rows that have their targets: of all methods but those that write completions.
#pragma once
#include <memory>

#include "config/config.h"
#include "config/training_arguments.h"
#include "data/batch/collate.h"
#include "data/batch/order.h"
#include "data/prepare/prepare_context.h"
#include "run/rows/batch_source.h"
#include "run/rows/rows.h"

namespace trl::run {

// Prepares all rows. Sets completion_only_loss of the context, if the rows decide it.
std::unique_ptr<Batches> prepared_batches(const config::Config& config,
                                          const config::TrainingArguments& training, const Rows& dataset,
                                          data::PrepareContext& context, const data::OrderOptions& order,
                                          const data::BatchLayout& layout);

// Prepares rows while training reads them (dataset_streaming).
std::unique_ptr<Batches> batches_as_read(const config::Config& config,
                                         const config::TrainingArguments& training, const Rows& dataset,
                                         data::PrepareContext& context, const data::OrderOptions& order,
                                         const data::BatchLayout& layout);

}  // namespace trl::run
