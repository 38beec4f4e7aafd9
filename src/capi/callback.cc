#include "capi/callback.h"

#include <dlfcn.h>

#include <algorithm>

namespace trl::capi {
namespace {

// Facts about this thread and CPython, if the process holds one.
struct PythonThread {
  int (*is_initialized)() = reinterpret_cast<int (*)()>(::dlsym(RTLD_DEFAULT, "Py_IsInitialized"));
  void* (*state)() = reinterpret_cast<void* (*)()>(::dlsym(RTLD_DEFAULT, "PyGILState_GetThisThreadState"));
  bool is_pythons = false;  // the interpreter created it or knows it
};

}  // namespace

void stay_out_of_ended_interpreter() noexcept {
  thread_local PythonThread python;
  if (python.is_initialized == nullptr || python.state == nullptr) return;
  if (python.is_initialized() != 0) {
    python.is_pythons = python.state() != nullptr;
  } else if (python.is_pythons) {
    park();
  }
}

void fail_thrown(std::string_view which) {
  try {
    throw;
  } catch (const std::exception& thrown) {
    std::string what = thrown.what();
    std::replace(what.begin(), what.end(), '\n', ' ');
    fail(Status::callback, "the host's {} callback threw: {}", which, what);
  } catch (...) {
    fail(Status::callback, "the host's {} callback threw something that is not a std::exception", which);
  }
}

void fail_callback(std::string_view which, int32_t code) {
  throw Error(Status::callback, fmt::format("the host's {} callback returned {}", which, code), {}, code);
}

}  // namespace trl::capi
