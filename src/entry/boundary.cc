#include "entry/boundary.h"

namespace trl::entry {

namespace {

int32_t report(engine::ErrorSink& sink, const Error& error) noexcept {
  sink.set(error);
  return static_cast<int32_t>(error.status());
}

std::string one_line(std::string text) {
  std::ranges::replace(text, '\n', ' ');
  return text;
}

// libtorch's CPU allocator throws a plain c10::Error.
bool is_out_of_memory(const c10::Error& error) {
  const std::string text = error.what_without_backtrace();
  return dynamic_cast<const c10::OutOfMemoryError*>(&error) != nullptr ||
         text.find("DefaultCPUAllocator: can't allocate memory") != std::string::npos ||
         text.find("DefaultCPUAllocator: not enough memory") != std::string::npos;
}

}  // namespace

void WarningsToHost::log(const std::string& text) {
  host_.log(static_cast<int32_t>(base::LogLevel::warning), "libtorch", one_line(text));
}

int32_t report_exception(engine::ErrorSink& error) noexcept {
  try {
    try {
      throw;
    } catch (const Error& e) {
      return report(error, e);
    } catch (const c10::Error& e) {
      const Status status = is_out_of_memory(e) ? Status::out_of_memory : Status::internal;
      return report(error, {status, "libtorch: " + one_line(e.what_without_backtrace())});
    } catch (const std::bad_alloc&) {
      return report(error, {Status::out_of_memory, "out of memory"});
    } catch (const std::exception& e) {
      return report(error, {Status::internal, one_line(e.what())});
    } catch (...) {
      return report(error, {Status::internal, "unknown exception"});
    }
  } catch (...) {  // no memory for the message itself
    return report(error, {Status::out_of_memory, "out of memory"});
  }
}

}  // namespace trl::entry
