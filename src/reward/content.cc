#include "reward/content.h"

#include <string>

#include "base/error.h"

namespace trl::reward {

std::string_view content_of(const Completion& completion) {
  if (completion.messages == nullptr) return completion.text;
  if (!completion.messages->is_array() || completion.messages->empty()) return {};
  const base::Json& message = completion.messages->front();
  const auto content = message.is_object() ? message.find("content") : message.end();
  return content != message.end() && content->is_string() ? *content->get_ptr<const std::string*>()
                                                          : std::string_view();
}

namespace {

std::string names_of(const base::Json* columns) {
  std::vector<std::string> names;
  if (columns != nullptr && columns->is_object())
    for (const auto& [name, unused] : columns->items()) names.push_back(name);
  return names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace

std::optional<std::string_view> solution_of(const Completion& completion, std::string_view reward) {
  const base::Json* columns = completion.columns;
  const bool has_columns = columns != nullptr && columns->is_object();
  const auto found = has_columns ? columns->find("solution") : base::Json::const_iterator();
  if (!has_columns || found == columns->end())
    fail_key("reward_funcs",
             "reward_funcs: {}: {} has no column solution, which {} compares with; its columns: {}", reward,
             Place::of_row(completion.row), reward, names_of(columns));
  if (found->is_null()) return std::nullopt;
  if (!found->is_string())
    fail_key("reward_funcs",
             "reward_funcs: {}: the column solution of {} is a {}; it must be a string or null", reward,
             Place::of_row(completion.row), base::json_type(*found));
  return *found->get_ptr<const std::string*>();
}

}  // namespace trl::reward
