#include "cli/trainers.h"

#include <algorithm>
#include <string_view>

namespace trl::cli {

namespace {

std::vector<std::string> trainer_names() {
  std::vector<std::string> all;
  for (const config::MethodRow* row : trainers()) all.emplace_back(row->name);
  return all;
}

}  // namespace

const config::MethodRow& default_trainer() { return config::methods().front(); }

const std::vector<const config::MethodRow*>& trainers() {
  static const std::vector<const config::MethodRow*> kTrainers = [] {
    std::vector<const config::MethodRow*> rows;
    for (const config::MethodRow& row : config::methods()) rows.push_back(&row);
    std::sort(rows.begin() + 1, rows.end(),
              [](const auto* a, const auto* b) { return std::string_view(a->name) < b->name; });
    return rows;
  }();
  return kTrainers;
}

std::string listed(const std::vector<std::string>& names, const char* word) {
  std::string text;
  for (size_t i = 0; i < names.size(); ++i) {
    if (i > 0) text += i + 1 == names.size() ? std::string(" ") + word + " " : ", ";
    text += names[i];
  }
  return text;
}

std::string all_trainers(const char* word) { return listed(trainer_names(), word); }

std::string other_trainers() {
  std::vector<std::string> others = trainer_names();
  others.erase(others.begin());
  return listed(others, "or");
}

}  // namespace trl::cli
