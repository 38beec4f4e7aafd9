#include "cli/hub/environment.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <fstream>
#include <initializer_list>

namespace trl::cli::hub {

namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// Returns the first of the variables that is not empty.
std::string variable(std::initializer_list<const char*> names) {
  for (const char* name : names)
    if (std::string value = variable(name); !value.empty()) return value;
  return "";
}

bool is_true(std::string value) {
  std::ranges::transform(value, value.begin(), [](unsigned char c) { return std::toupper(c); });
  return value == "1" || value == "ON" || value == "YES" || value == "TRUE";
}

// Expands ~ and $NAME in a path, as a shell does.
std::string expanded(const std::string& path) {
  std::string text;
  for (size_t at = 0; at < path.size();) {
    const bool home = at == 0 && path[0] == '~' && (path.size() == 1 || path[1] == '/');
    const bool braces = path.compare(at, 2, "${") == 0;
    if (home) {
      text += variable("HOME");
      ++at;
      continue;
    }
    const size_t begin = at + (braces ? 2 : 1);
    size_t end = begin;
    while (path[at] == '$' && end < path.size() &&
           (std::isalnum(static_cast<unsigned char>(path[end])) != 0 || path[end] == '_'))
      ++end;
    const std::string name = end > begin && path[at] == '$' ? path.substr(begin, end - begin) : "";
    const bool closed = !braces || (end < path.size() && path[end] == '}');
    if (name.empty() || !closed || std::getenv(name.c_str()) == nullptr) {
      text += path[at++];  // unchanged
      continue;
    }
    text += variable(name.c_str());
    at = end + (braces ? 1 : 0);
  }
  return text;
}

std::string home() {
  if (const std::string own = variable("HF_HOME"); !own.empty()) return expanded(own);
  const std::string caches = variable("XDG_CACHE_HOME");
  return expanded(caches.empty() ? "~/.cache" : caches) + "/huggingface";
}

std::string trimmed(std::string text) {
  std::erase_if(text, [](char c) { return c == '\r' || c == '\n'; });
  text.erase(0, text.find_first_not_of(" \t"));
  text.erase(text.find_last_not_of(" \t") + 1);
  return text;
}

void find_token(Settings& out) {
  if (is_true(variable("HF_HUB_DISABLE_IMPLICIT_TOKEN"))) return;
  for (const char* name : {"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"}) {
    out.token = trimmed(variable(name));
    out.token_origin = std::string("the variable ") + name;
    if (!out.token.empty()) return;
  }
  const std::string named = variable("HF_TOKEN_PATH");
  const std::string path = named.empty() ? home() + "/token" : expanded(named);
  std::string line;
  std::getline(std::ifstream(path), line);
  out.token = trimmed(line);
  out.token_origin = "the file " + path;
}

}  // namespace

Settings settings(const std::string& hub) {
  Settings out;
  out.endpoint = variable("HF_ENDPOINT");
  if (out.endpoint.empty()) out.endpoint = "https://huggingface.co";
  while (out.endpoint.ends_with('/')) out.endpoint.pop_back();
  if (!out.endpoint.starts_with("https://") && !out.endpoint.starts_with("http://"))
    throw HubError(fmt::format(
        "HF_ENDPOINT: '{}' is not accepted; give a URL that begins with https:// or http://", out.endpoint));
  const std::string cache = variable({"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"});
  out.cache = cache.empty() ? home() + "/hub" : expanded(cache);
  find_token(out);
  for (const char c : out.token) {
    if (std::iscntrl(static_cast<unsigned char>(c)) != 0 || c == ' ')
      throw HubError(
          fmt::format("the token in {} has a space or a control character in it", out.token_origin));
  }

  const std::string value = hub.empty() ? variable("TRL_HUB") : hub;
  const char* const key = hub.empty() ? "TRL_HUB" : "--hub";
  if (!value.empty() && value != "on" && value != "off")
    throw HubError(fmt::format("{}: '{}' is not accepted; give on or off", key, value));
  if (value == "off") out.off = hub.empty() ? "TRL_HUB=off" : "--hub off";
  for (const char* name : {"HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"})
    if (out.off.empty() && is_true(variable(name))) out.off = std::string(name) + "=" + variable(name);
  return out;
}

}  // namespace trl::cli::hub
