// The records of a run on stdout: as JSON, or as short lines for a person at a terminal.
#pragma once
#include <trl.h>

#include <string>

namespace trl::cli {

std::string json_record(const trl_metrics* metrics);
// Returns the values that fit in width columns, the most telling first: "step 10  loss 1.234  lr 2e-05".
std::string short_record(const trl_metrics* metrics, int width);

}  // namespace trl::cli
