// trl_runtime_mount, and what paths "host://..." do.
#include "capi/runtime/mounts.h"

#include <algorithm>

#include "base/files/files.h"
#include "capi/guard.h"
#include "capi/process/process.h"
#include "capi/runtime/runtime.h"

namespace trl::capi {

namespace {

constexpr int64_t kAbsent = -1;
constexpr std::string_view kNames = "letters a to z and A to Z, digits, _ and -";

static_assert(static_cast<int32_t>(base::HostWrite::data) == TRL_WRITE_DATA &&
              static_cast<int32_t>(base::HostWrite::done) == TRL_WRITE_DONE &&
              static_cast<int32_t>(base::HostWrite::dropped) == TRL_WRITE_DROPPED);

bool is_name(std::string_view name) {
  return !name.empty() && std::ranges::all_of(name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
  });
}

// Returns the host's answer: kAbsent for TRL_E_NOT_FOUND, and throws for other negative ones.
int64_t checked(int64_t value) {
  if (value >= 0) return value;
  if (value == TRL_E_NOT_FOUND) return kAbsent;
  fail_callback("read", value);
}

Error named(const std::string& path, const Error& error) {
  return {error.status(), fmt::format("{}: {}", path, error.message()), error.key(), error.callback_code(),
          Place::in(path)};
}

}  // namespace

std::shared_ptr<const Mount> Mounts::add(const std::string& name, Mount& mount) {
  if (!is_name(name)) {
    fail(Status::invalid_argument, "name: '{}' is not the name of a mount: give {}", name, kNames);
  }
  const std::lock_guard lock(mutex_);
  std::weak_ptr<const Mount>& known = mounts_[name];
  if (!known.expired()) {
    fail(Status::invalid_argument,
         "name: '{}' is mounted already: give another name, or destroy that runtime and all that was made "
         "with it",
         name);
  }
  auto held = std::make_shared<const Mount>(std::move(mount));
  known = held;
  return held;
}

std::shared_ptr<const Mount> Mounts::find(const std::string& path, std::string* file) {
  std::string_view rest(path);
  rest.remove_prefix(base::kHostPath.size());
  while (rest.ends_with('/')) rest.remove_suffix(1);
  const size_t slash = rest.find('/');
  const std::string_view name = rest.substr(0, slash);
  if (slash != rest.npos) *file = rest.substr(slash + 1);
  if (!is_name(name)) {
    if (name.empty() || slash == rest.npos)  // of "host://" alone, the name of a file may follow
      fail(Status::invalid_argument,
           "the name of a mount is missing: give {0}NAME or {0}NAME/FOLDER (trl_runtime_mount)",
           base::kHostPath);
    fail(Status::invalid_argument, "'{}' is not the name of a mount, which has {} (trl_runtime_mount)", name,
         kNames);
  }
  if (!file->empty() && !base::is_plain_path(*file))
    fail(Status::invalid_argument, "no part of a path below a mount may be empty, . or ..");
  const std::lock_guard lock(mutex_);
  const auto found = mounts_.find(name);
  std::shared_ptr<const Mount> mount = found == mounts_.end() ? nullptr : found->second.lock();
  if (mount == nullptr) fail(Status::not_found, "nothing is mounted as '{}' (trl_runtime_mount)", name);
  return mount;
}

base::HostFiles::Answer Mounts::ask(const std::string& path, const Body& body) noexcept {
  try {
    try {
      if (!has_call()) fail(Status::internal, "files of the host are used outside of a call");
      std::string file;
      const std::shared_ptr<const Mount> mount = find(path, &file);
      return {body(*mount, file)};
    } catch (const Error& error) {
      return {0, named(path, error)};
    }
  } catch (...) {
    return {0, Error(Status::out_of_memory, "")};
  }
}

base::HostFiles::Answer Mounts::size(const std::string& path) noexcept {
  return ask(path, [](const Mount& mount, const std::string& file) {
    if (mount.read == nullptr || file.empty()) return kAbsent;
    return checked(
        call_host("read", [&] { return mount.read(mount.user_data.get(), file.c_str(), 0, nullptr, 0); }));
  });
}

base::HostFiles::Answer Mounts::read(const std::string& path, uint64_t offset, void* buffer,
                                     size_t size) noexcept {
  return ask(path, [&](const Mount& mount, const std::string& file) {
    if (mount.read == nullptr || file.empty()) return kAbsent;
    const int64_t got = checked(call_host(
        "read", [&] { return mount.read(mount.user_data.get(), file.c_str(), offset, buffer, size); }));
    if (got > 0 && static_cast<uint64_t>(got) > size) {
      fail(Status::callback, "the host's read callback returned {} bytes, and {} were asked for", got, size);
    }
    return got;
  });
}

base::HostFiles::Answer Mounts::write(base::HostWrite what, const std::string& path, uint64_t offset,
                                      std::string_view data) noexcept {
  return ask(path, [&](const Mount& mount, const std::string& file) -> int64_t {
    if (mount.write == nullptr)
      fail(Status::io, "nothing can be written there: the mount has no function for it");
    const char* const bytes = what != base::HostWrite::data ? nullptr : data.empty() ? "" : data.data();
    const int32_t code = call_host("write", [&] {
      return mount.write(mount.user_data.get(), static_cast<int32_t>(what), file.c_str(), offset, bytes,
                         data.size());
    });
    if (code < 0) fail_callback("write", code);
    return 0;
  });
}

base::HostFiles::Answer Mounts::charge(const std::string& path, int64_t bytes) noexcept {
  return ask(path, [&](const Mount&, const std::string&) -> int64_t {
    process().charge(base::MemoryKind::weights, bytes);
    return 0;
  });
}

void Mounts::release(int64_t bytes) noexcept { process().memory().release(base::MemoryKind::weights, bytes); }

Mounts& mounts() {
  static Mounts* const only = new Mounts;
  return *only;
}

}  // namespace trl::capi

using namespace trl::capi;

trl_status trl_runtime_mount(trl_runtime* runtime, const char* name, trl_read_fn read, trl_write_fn write,
                             void* user_data, trl_destroy_fn destroy, trl_error** error) noexcept {
  return guard(error, [&, mount = Mount{read, write, {user_data, destroy}}]() mutable {
    const auto shared = get(runtime, "runtime");
    shared->hold(mounts().add(std::string(text(name, "name")), mount));
  });
}
