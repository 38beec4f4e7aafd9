// The trainers of this version, from the table of methods that the command compiles for itself.
#pragma once
#include <string>
#include <vector>

#include "config/method.h"

namespace trl::cli {

// Returns them in the order of the overview: the default, then the others by name.
const std::vector<const config::MethodRow*>& trainers();
const config::MethodRow& default_trainer();

// Returns "a, b or c" with the word before the last one.
std::string listed(const std::vector<std::string>& names, const char* word);
std::string all_trainers(const char* word);  // "sft, dpo, kto or reward"
std::string other_trainers();                // those besides the default: "dpo, kto or reward"

}  // namespace trl::cli
