// trl_config_*: key-value configuration.
#include "capi/config_handle.h"

#include "base/json/json.h"
#include "capi/guard.h"
#include "config/warnings.h"

using namespace trl::capi;

trl_status trl_config_create(trl_config** out_config, trl_error** error) noexcept {
  return guard(
      error,
      [&] {
        need(out_config, "out_config");
        *out_config = new trl_config(std::make_shared<SharedConfig>());
      },
      out_config);
}

trl_status trl_config_set(trl_config* config, const char* key, const char* value,
                          trl_error** error) noexcept {
  return guard(error, [&] {
    const auto shared = get(config, "config");
    const std::string_view name = text(key, "key");
    const std::string_view wanted = text(value, "value");
    shared->change([&](trl::config::Config& values) { values.set(name, wanted); });
  });
}

trl_status trl_config_unset(trl_config* config, const char* key, trl_error** error) noexcept {
  return guard(error, [&] {
    const auto shared = get(config, "config");
    const std::string_view name = text(key, "key");
    shared->change([&](trl::config::Config& values) { values.unset(name); });
  });
}

trl_status trl_config_get(const trl_config* config, const char* key, const char** out_value,
                          trl_error** error) noexcept {
  return guard(
      error,
      [&] {
        const auto shared = get(config, "config");
        const std::string_view name = text(key, "key");
        need(out_value, "out_value");
        *out_value = shared->keep(shared->copy().get(name));
      },
      out_value);
}

trl_status trl_config_get_origin(const trl_config* config, const char* key, const char** out_origin,
                                 trl_error** error) noexcept {
  return guard(
      error,
      [&] {
        const auto shared = get(config, "config");
        const std::string_view name = text(key, "key");
        need(out_origin, "out_origin");
        *out_origin = shared->keep(shared->copy().origin(name));
      },
      out_origin);
}

trl_status trl_config_load(trl_config* config, const char* path, trl_error** error) noexcept {
  return guard(error, [&] {
    const auto shared = get(config, "config");
    const std::string file = path_of(path);
    shared->change([&](trl::config::Config& values) { values.load_file(file); });
  });
}

trl_status trl_config_load_text(trl_config* config, const char* text, size_t size,
                                trl_error** error) noexcept {
  return guard(error, [&] {
    const auto shared = get(config, "config");
    const std::string_view view = utf8(text, size, "text");
    shared->change([&](trl::config::Config& values) { values.load_text(view, "text"); });
  });
}

trl_status trl_config_describe(const trl_config* config, const char** out_json, trl_error** error) noexcept {
  return guard(
      error,
      [&] {
        const auto shared = get(config, "config");
        need(out_json, "out_json");
        *out_json = shared->keep(shared->copy().to_json());
      },
      out_json);
}

trl_status trl_config_get_warnings(const trl_config* config, const char** out_json,
                                   trl_error** error) noexcept {
  return guard(
      error,
      [&] {
        const auto shared = get(config, "config");
        need(out_json, "out_json");
        *out_json = shared->keep(trl::base::Json(trl::config::by_reason(shared->copy().warnings())).dump());
      },
      out_json);
}

void trl_config_destroy(trl_config* config) noexcept { destroy(config); }
