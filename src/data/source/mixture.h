// Joins rows of several origins, and sets a part of one aside, by the rules of the formats that do so: TRL's
// datasets (get_dataset), open-r1's dataset_mixture and alignment-handbook's dataset_mixer.
#pragma once
#include <memory>
#include <vector>

#include "base/log.h"
#include "config/datasets.h"
#include "data/source/origin.h"

namespace trl::data {

// bases: one for each entry. log outlives the mixture.
std::shared_ptr<const Origin> mixture_origin(std::vector<std::shared_ptr<const Origin>> bases,
                                             const config::DatasetArguments& arguments,
                                             std::vector<config::DatasetEntry> entries, base::LogSink& log);
// datasets' train_test_split; size: rows to test on, or below 1 their share. test: selects the test part.
std::shared_ptr<const Origin> split_origin(std::shared_ptr<const Origin> base, double size, uint64_t seed,
                                           bool test);

}  // namespace trl::data
