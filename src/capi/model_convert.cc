// trl_model_convert.
#include "capi/config_handle.h"
#include "capi/guard.h"
#include "capi/runtime.h"
#include "run/convert_model.h"

using namespace trl::capi;

trl_status trl_model_convert(trl_runtime* runtime, const char* path, const char* target,
                             const trl_config* options, trl_error** error) noexcept {
  return guard(error, [&] {
    const std::string from = path_of(path), to = path_of(target, "target");
    const auto held = runtime_of(runtime);
    const RuntimeScope scope(*held);
    trl::run::convert_model(*held, from, to, options_of(options));
  });
}
