// Rows of splits: parts of a split, and several splits one after another (config/split.h).
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "config/split.h"
#include "data/source/origin.h"

namespace trl::data {

// bases: the whole split of each part. key: the option that names the split, for messages.
std::shared_ptr<const Origin> parts_origin(std::vector<std::shared_ptr<const Origin>> bases,
                                           std::vector<config::SplitPart> parts, std::string key);

}  // namespace trl::data
