#include "text/tokenizer/added_tokens_json.h"

#include <algorithm>

#include "base/error.h"
#include "base/json/json.h"

namespace trl::text {

namespace {

constexpr std::string_view kKey = "added_tokens", kSpace = " \t\r\n";

size_t skip_space(std::string_view json, size_t at) {
  return std::min(json.find_first_not_of(kSpace, at), json.size());
}

// Returns the position after the string that begins at `at`.
size_t skip_string(std::string_view json, size_t at) {
  for (++at; at < json.size() && json[at] != '"'; ++at) at += json[at] == '\\' ? 1 : 0;
  return at + 1;
}

// Returns the position after the value that begins at `at`.
size_t skip_value(std::string_view json, size_t at) {
  for (int depth = 0; at < json.size();) {
    const char c = json[at];
    if (depth == 0 && (c == ',' || c == '}' || c == ']')) break;
    if (c == '"') {
      at = skip_string(json, at);
      continue;
    }
    if (c == '{' || c == '[') ++depth;
    if (c == '}' || c == ']') --depth;
    ++at;
  }
  return at;
}

// Returns begin and end of the value of "added_tokens"; none: {npos, npos}.
std::pair<size_t, size_t> find_value(std::string_view json) {
  for (size_t at = json.find('{') + 1; at < json.size();) {
    at = skip_space(json, at);
    if (at >= json.size() || json[at] != '"') break;
    const size_t behind = skip_string(json, at);
    const std::string_view key = json.substr(at + 1, behind - at - 2);
    const size_t begin = skip_space(json, json.find(':', behind) + 1);
    const size_t end = skip_value(json, begin);
    if (key == kKey) return {begin, end};
    at = end + 1;
  }
  return {std::string_view::npos, std::string_view::npos};
}

base::Json json_of(const std::map<int32_t, AddedToken>& tokens) {
  base::Json list = base::Json::array();
  for (const auto& [id, token] : tokens) {
    list.push_back({{"id", id},
                    {"content", token.content},
                    {"single_word", token.single_word},
                    {"lstrip", token.lstrip},
                    {"rstrip", token.rstrip},
                    {"normalized", token.normalized},
                    {"special", token.special}});
  }
  return list;
}

}  // namespace

std::string with_added_tokens(std::string_view json, const std::map<int32_t, AddedToken>& tokens) {
  const std::string list = json_of(tokens).dump(2);
  const auto [begin, end] = find_value(json);
  std::string out;
  if (begin == std::string_view::npos) {
    const size_t first = json.find('{') + 1;
    const bool alone = json[skip_space(json, first)] == '}';
    out = json.substr(0, first);
    out += fmt::format("\"{}\": {}{}", kKey, list, alone ? "" : ",");
    return out += json.substr(first);
  }
  out = json.substr(0, begin);
  out += list;
  return out += json.substr(end);
}

}  // namespace trl::text
