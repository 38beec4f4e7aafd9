// trl_version, trl_build_info, trl_has_feature: what this build is.
#include <algorithm>
#include <array>

#include "base/files.h"
#include "base/json.h"
#include "capi/guard.h"
#include "engine/loader.h"

using namespace trl::capi;

namespace {

constexpr std::array<std::string_view, 6> kFeatures = {"sft",  "generate", "safetensors",
                                                       "gguf", "gzip",     "zstd"};

bool has_engine() { return trl::base::file_exists(trl::engine::default_engine_path()); }

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
      info["engine"] = has_engine();
      info["features"] = kFeatures;
      return new std::string(info.dump());
    }();
    return text->c_str();
  });
}

int32_t trl_has_feature(const char* name) noexcept {
  return answer(0, [&] {
    if (name == nullptr) return 0;
    return static_cast<int32_t>(std::find(kFeatures.begin(), kFeatures.end(), name) != kFeatures.end());
  });
}
