#include "capi/callback.h"

#include <algorithm>

namespace trl::capi {

void fail_thrown(std::string_view which) {
  try {
    throw;
  } catch (const std::exception& thrown) {
    std::string what = thrown.what();
    std::replace(what.begin(), what.end(), '\n', ' ');
    fail(Status::callback, "the host's {} callback threw: {}", which, what);
  } catch (...) {
    fail(Status::callback, "the host's {} callback threw what is no std::exception", which);
  }
}

void fail_callback(std::string_view which, int32_t code) {
  throw Error(Status::callback, fmt::format("the host's {} callback returned {}", which, code), {}, code);
}

}  // namespace trl::capi
