// The terms of a plan: the name of each block of memory that a rehearsal takes.
#pragma once
#include <string>

#include "tensor/memory/rehearsal.h"

namespace trl::entry {

// Returns the term of a plan for a block.
std::string plan_term(const tensor::Taken& taken);

}  // namespace trl::entry
