// Tools that the prompts of a run are rendered with.
#pragma once
#include <string>

#include "base/json/json.h"
#include "data/source/row.h"

namespace trl::data {

struct PromptTools {
  base::Json schemas = base::Json::object();  // lists by environment; under "" without environments
  bool environments = false;                  // rows belong to one
  std::string chat_template = {};             // in place of the tokenizer's; empty: that one

  // Returns the environment of a row, by its column `environment`, or the only one; empty: there are none.
  // Throws Error(format) for one that is not known.
  const std::string& environment_of(const Row& row) const;
  // Returns a row's schemas, or null for none, as a chat template takes them.
  base::Json of(const Row& row) const;
  // Gives a row without a prompt an empty one, which its environment fills.
  void give_prompt(Row& row) const;
};

}  // namespace trl::data
