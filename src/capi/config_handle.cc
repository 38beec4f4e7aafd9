// trl_config_*: key-value configuration.
#include "capi/config_handle.h"

#include <algorithm>
#include <map>
#include <mutex>

#include "base/json/json.h"
#include "capi/guard.h"
#include "config/method.h"
#include "config/table/option.h"
#include "config/table/schema.h"
#include "config/training_arguments.h"

using namespace trl::capi;

namespace {

// Sets *out, named `name`, to the text that text_of makes of the configuration.
template <class Body>
trl_status give_text(const trl_config* config, const char** out, const char* name, trl_error** error,
                     Body&& text_of) noexcept {
  return guard<From::anywhere>(error, out, [&] {
    const auto shared = get(config, "config");
    need(out, name);
    *out = shared->keep(text_of(shared->copy()));
  });
}

// Checks the value of a key, which errors name.
std::string_view value_of(std::string_view key, const char* value) {
  try {
    return text(value, "value");
  } catch (const trl::Error& error) {
    throw error.with(fmt::format("{}: {}", key, error.message()), key);
  }
}

// Returns the schema of a trainer, made once and leaked.
const char* schema_of(const std::string& trainer) {
  static std::mutex mutex;
  static auto* const made = new std::map<std::string, std::string>;
  const std::lock_guard lock(mutex);
  std::string& schema = (*made)[trainer];
  if (schema.empty()) schema = trl::config::schema(trainer);
  return schema.c_str();
}

}  // namespace

trl_status trl_config_create(trl_config** out_config, trl_error** error) noexcept {
  return guard<From::anywhere>(error, out_config, [&] {
    need(out_config, "out_config");
    *out_config = new trl_config(std::make_shared<SharedConfig>());
  });
}

trl_status trl_config_set(trl_config* config, const char* key, const char* value,
                          trl_error** error) noexcept {
  return guard<From::anywhere>(error, [&] {
    const auto shared = get(config, "config");
    const std::string_view name = text(key, "key");
    const std::string_view wanted = value_of(name, value);
    shared->change([&](trl::config::Config& values) { values.set(name, wanted); });
  });
}

trl_status trl_config_unset(trl_config* config, const char* key, trl_error** error) noexcept {
  return guard<From::anywhere>(error, [&] {
    const auto shared = get(config, "config");
    const std::string_view name = text(key, "key");
    shared->change([&](trl::config::Config& values) { values.unset(name); });
  });
}

trl_status trl_config_get(const trl_config* config, const char* key, const char** out_value,
                          trl_error** error) noexcept {
  return give_text(config, out_value, "out_value", error,
                   [&](const trl::config::Config& values) { return values.get(text(key, "key")); });
}

trl_status trl_config_get_origin(const trl_config* config, const char* key, const char** out_origin,
                                 trl_error** error) noexcept {
  return give_text(config, out_origin, "out_origin", error,
                   [&](const trl::config::Config& values) { return values.origin(text(key, "key")); });
}

trl_status trl_config_load(trl_config* config, const char* path, trl_error** error) noexcept {
  return guard<From::anywhere>(error, [&] {
    const auto shared = get(config, "config");
    const std::string file = path_of(path);
    shared->change([&](trl::config::Config& values) { values.load_file(file); });
  });
}

trl_status trl_config_load_text(trl_config* config, const char* text, size_t size,
                                trl_error** error) noexcept {
  return guard<From::anywhere>(error, [&] {
    const auto shared = get(config, "config");
    const std::string_view view = utf8(text, size, "text");
    shared->change([&](trl::config::Config& values) { values.load_text(view, "text"); });
  });
}

trl_status trl_config_describe(const trl_config* config, const char** out_json, trl_error** error) noexcept {
  return give_text(config, out_json, "out_json", error,
                   [&](const trl::config::Config& values) { return values.to_json(); });
}

trl_status trl_config_get_warnings(const trl_config* config, const char** out_json,
                                   trl_error** error) noexcept {
  return give_text(config, out_json, "out_json", error, [&](const trl::config::Config& values) {
    return trl::base::Json(trl::config::by_reason(values.warnings())).dump();
  });
}

trl_status trl_config_get_schema(const char* trainer, const char** out_json, trl_error** error) noexcept {
  return guard<From::anywhere>(error, out_json, [&] {
    need(out_json, "out_json");
    const std::string name =
        trainer == nullptr ? std::string() : trl::config::underscored(text(trainer, "trainer"));
    const auto known = trl::config::trainers();
    if (trainer != nullptr && std::ranges::find(known, name, &trl::config::MethodRow::name) == known.end())
      trl::fail(trl::Status::not_found, "trainer: '{}' is not one; accepted: {}", name,
                trl::config::trainer_names(trl::config::kAllTrainers, ", "));
    *out_json = schema_of(name);
  });
}

void trl_config_destroy(trl_config* config) noexcept { destroy(config); }
