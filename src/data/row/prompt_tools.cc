#include "data/row/prompt_tools.h"

#include <vector>

#include "base/error.h"
#include "data/row/columns.h"

namespace trl::data {

const std::string& PromptTools::environment_of(const Row& row) const {
  const base::Json* const named = environments ? find_column(row, "environment") : nullptr;
  if (named == nullptr && schemas.size() == 1) return schemas.begin().key();
  const auto found =
      named != nullptr && named->is_string() ? schemas.find(named->get<std::string>()) : schemas.end();
  if (found != schemas.end()) return found.key();
  std::vector<std::string> names;
  for (const auto& [name, unused] : schemas.items()) names.push_back(name);
  const char* const none = row.value.contains("environment") ? "null" : "missing";
  fail(Status::format, "{}: column 'environment' is {}: give one of {}", row.where,
       named == nullptr ? none : fmt::format("{}, which the key environments does not name", named->dump()),
       fmt::join(names, ", "));
}

base::Json PromptTools::of(const Row& row) const {
  const base::Json& own = schemas.at(environment_of(row));
  return own.empty() ? base::Json() : own;
}

void PromptTools::give_prompt(Row& row) const {
  if (!environments || find_column(row, "prompt") != nullptr) return;
  row.value["prompt"] = {{{"role", "user"}, {"content", ""}}};
}

}  // namespace trl::data
