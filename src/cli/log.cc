#include "cli/log.h"

#include <spdlog/spdlog.h>

#include "cli/progress.h"

namespace trl::cli {

namespace {
void on_log(void*, int32_t level, const char*, const char* text, size_t size) {
  constexpr spdlog::level::level_enum kLevels[] = {spdlog::level::debug, spdlog::level::info,
                                                   spdlog::level::warn, spdlog::level::err};
  Progress::clear_line();
  spdlog::log(kLevels[level < 0 || level > 3 ? 3 : level], "{}", std::string_view(text, size));
}
}  // namespace

void open_runtime(const Config& config, Runtime& runtime) {
  Error error;
  check(trl_runtime_create(config.get(), runtime.out(), error.out()), error);
  check(trl_runtime_set_log(runtime.get(), on_log, nullptr, nullptr, error.out()), error);
}

}  // namespace trl::cli
