// trl_version, trl_build_info, trl_has_feature.
#include <algorithm>
#include <memory>
#include <string_view>
#include <vector>

#include "base/arithmetic/isa.h"
#include "base/files/files.h"
#include "base/json/json.h"
#include "capi/guard.h"
#include "config/method.h"
#include "engine/open_engine.h"

using namespace trl::capi;

namespace {

void add(std::string_view words, std::vector<std::string_view>& out) {
  while (!words.empty()) {
    const size_t end = std::min(words.find(' '), words.size());
    out.push_back(words.substr(0, end));
    words.remove_prefix(std::min(end + 1, words.size()));
  }
}

// Returns the lists of features.cmake; the second one, with the methods, only if the engine is installed.
const std::vector<std::string_view>& features() {
  static const auto* const names = [] {
    auto made = std::make_unique<std::vector<std::string_view>>();
    add(TRL_FEATURES, *made);
    if (std::string_view(TRL_ENGINE_FEATURES).empty() ||
        !trl::base::file_exists(trl::engine::default_engine_path()))
      return made.release();
    const auto engines = static_cast<std::ptrdiff_t>(made->size());
    add(TRL_ENGINE_FEATURES, *made);
    for (const trl::config::MethodRow& row : trl::config::methods()) made->emplace_back(row.name);
    std::sort(made->begin() + engines, made->end());
    return made.release();
  }();
  return *names;
}

bool has(std::string_view name) {
  if (const trl::config::MethodRow* method = trl::config::find_method(name)) name = method->name;
  return std::ranges::find(features(), name) != features().end();
}

}  // namespace

uint32_t trl_version(void) noexcept {
  return answer(0u, [] {
    return static_cast<uint32_t>(TRL_VERSION_MAJOR << 16 | TRL_VERSION_MINOR << 8 | TRL_VERSION_PATCH);
  });
}

const char* trl_version_string(void) noexcept {
  return answer("", [] { return TRL_VERSION_STRING; });
}

const char* trl_build_info(void) noexcept {
  return answer("{}", [] {
    static const std::string* const text = [] {
      trl::base::Json info = {
          {"version", TRL_VERSION_STRING}, {"abi", TRL_VERSION_MAJOR}, {"compiler", "gcc " __VERSION__}};
      info["cpu"] = trl::base::kCpu;
      info["engine"] = has("engine");
      info["features"] = features();
      return new std::string(info.dump());
    }();
    return text->c_str();
  });
}

int32_t trl_has_feature(const char* name) noexcept {
  return answer(0, [&] { return static_cast<int32_t>(name != nullptr && has(name)); });
}
