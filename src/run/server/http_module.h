// Opens libtrl_http.so, once for the process.
#pragma once
#include "http/module.h"

namespace trl::run {

// Throws Error(unsupported) that says why if it cannot be used.
const http::Module& http_module();

}  // namespace trl::run
