#include "capi/callback.h"

#include <dlfcn.h>

#include <algorithm>
#include <cerrno>
#include <memory>

#include "base/text/utf8.h"

namespace trl::capi {

namespace {

// Facts about this thread and CPython, if the process holds one.
struct PythonThread {
  int (*is_initialized)() = reinterpret_cast<int (*)()>(::dlsym(RTLD_DEFAULT, "Py_IsInitialized"));
  void* (*state)() = reinterpret_cast<void* (*)()>(::dlsym(RTLD_DEFAULT, "PyGILState_GetThisThreadState"));
  bool is_pythons = false;  // the interpreter created it or knows it
};

// Wraps an ArrowSchema or ArrowArray of the host in one with the same fields and a release of our own.
template <class T>
void release_guarded(T* outer) {
  const std::unique_ptr<T> host(static_cast<T*>(outer->private_data));
  outer->release = nullptr;
  call_host_and_keep("release", [&] { host->release(host.get()); });
}

// Returns a copy of what the host gives; without memory for it, that is released.
template <class T>
std::unique_ptr<T> taken(T* given) {
  try {
    return std::make_unique<T>(*given);
  } catch (...) {
    call_host_and_keep("release", [&] { given->release(given); });
    given->release = nullptr;
    throw;
  }
}

template <class T>
void guard_release(T* out) {
  if (out->release == nullptr) return;
  std::unique_ptr<T> host = taken(out);
  out->release = release_guarded<T>;
  out->private_data = host.release();
}

ArrowArrayStream* host_of(ArrowArrayStream* stream) {
  return static_cast<ArrowArrayStream*>(stream->private_data);
}

template <class T>
int get(std::string_view which, ArrowArrayStream* stream, int (*function)(ArrowArrayStream*, T*),
        T* out) noexcept {
  try {
    const int code = call_host(which, [&] { return function(host_of(stream), out); });
    if (code == 0) guard_release(out);
    return code;
  } catch (...) {
    keep_failure(std::current_exception());
    return EIO;
  }
}

int get_schema(ArrowArrayStream* stream, ArrowSchema* out) {
  return get("get_schema", stream, host_of(stream)->get_schema, out);
}
int get_next(ArrowArrayStream* stream, ArrowArray* out) {
  return get("get_next", stream, host_of(stream)->get_next, out);
}

const char* get_last_error(ArrowArrayStream* stream) {
  const char* text = nullptr;
  call_host_and_keep("get_last_error", [&] { text = host_of(stream)->get_last_error(host_of(stream)); });
  return text;
}

void release(ArrowArrayStream* stream) {
  const std::unique_ptr<ArrowArrayStream> host(host_of(stream));
  stream->release = nullptr;
  call_host_and_keep("release", [&] { host->release(host.get()); });
}

}  // namespace

void stay_out_of_ended_interpreter() noexcept {
  thread_local PythonThread python;
  if (python.is_initialized == nullptr || python.state == nullptr) return;
  if (python.is_initialized() != 0)
    python.is_pythons = python.state() != nullptr;
  else if (python.is_pythons)
    park();
}

void fail_thrown(std::string_view which) {
  try {
    throw;
  } catch (const std::exception& thrown) {
    fail(Status::callback, "the host's {} callback threw: {}", which, base::one_line(thrown.what()));
  } catch (...) {
    fail(Status::callback, "the host's {} callback threw something that is not a std::exception", which);
  }
}

void fail_callback(std::string_view which, int64_t code) {
  throw Error(Status::callback, fmt::format("the host's {} callback returned {}", which, code), {},
              static_cast<int32_t>(std::clamp<int64_t>(code, INT32_MIN, INT32_MAX)));
}

ArrowArrayStream guarded_stream(ArrowArrayStream* stream) {
  std::unique_ptr<ArrowArrayStream> host = taken(stream);
  stream->release = nullptr;
  return {get_schema, get_next, get_last_error, release, host.release()};
}

}  // namespace trl::capi
