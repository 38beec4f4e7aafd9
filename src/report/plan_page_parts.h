// Parts of a plan's page.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "report/planned_sets.h"

namespace trl::report {

std::string data_cell(std::string_view html, std::string_view kind = {});  // of a table; kind: its class
std::string key_of(const PlanTerms& terms, size_t term);                   // colour and name
std::string bytes_of(const base::Json& of, const char* key);               // empty: it is absent
std::string sets_cards(const std::vector<PlannedSet>& sets, const PlanTerms& terms);

}  // namespace trl::report
