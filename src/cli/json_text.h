// JSON that users, their files and their programs write.
#pragma once
#include <nlohmann/json.hpp>
#include <string>

namespace trl::cli {

// As in the library: values are written and freed recursively.
inline constexpr int kMostNesting = 128;

// Returns a discarded value for a text that is not JSON, or is nested deeper than kMostNesting.
template <class Json = nlohmann::ordered_json>
Json parse_text(const std::string& text) {
  bool deep = false;
  const auto is_kept = [&](int depth, nlohmann::detail::parse_event_t, Json&) {
    deep = deep || depth > kMostNesting;
    return !deep;
  };
  Json json = Json::parse(text, is_kept, false);
  return deep ? Json(Json::value_t::discarded) : json;
}

}  // namespace trl::cli
