#include "cli/output.h"

#include <spdlog/spdlog.h>

#include <cerrno>
#include <cstdio>
#include <system_error>

#include "cli/handles.h"
#include "cli/progress_line.h"

namespace trl::cli {

namespace {
int g_error = 0;  // errno of the first failed write
}  // namespace

bool print(std::string_view text) {
  if (g_error != 0) return false;
  clear_line();
  errno = 0;
  if (std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0)
    return true;
  g_error = errno != 0 ? errno : EIO;
  return false;
}

int with_output(int code) {
  if (g_error == 0 || g_error == EPIPE || code != 0) return code;
  spdlog::error("stdout: {}", std::generic_category().message(g_error));
  return kFailed;
}

}  // namespace trl::cli
