// The beginning of every handle: a tag that tells its type, the process and the copy of libtrl that made it,
// so that a wrong, destroyed, inherited or foreign handle is an error code. The object itself is shared: its
// users keep it alive.
#pragma once
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <thread>

#include "base/error.h"

namespace trl::capi {

enum class Tag : uint32_t {
  retired = 0x54524c00,
  error,
  config,
  runtime,
  dataset,
  record,
  tokenizer,
  model,
  trainer,
  evaluator,
  metrics,
  generator,
  completions,
  rollout,
};
std::string_view tag_name(Tag tag);  // "trl_error"; empty: no tag, or retired

inline constexpr char kThisCopy = 0;  // its address is different in every copy of the library

class Head {
 public:
  explicit Head(Tag tag);
  Head(const Head&) = delete;
  Head& operator=(const Head&) = delete;
  bool is(Tag tag) const noexcept {
    return tag_.load(std::memory_order_relaxed) == tag && copy_ == &kThisCopy;
  }
  bool inherited() const noexcept;  // made by the process that this one was forked from
  void retire() noexcept { tag_.store(Tag::retired, std::memory_order_relaxed); }
  void check(Tag tag, std::string_view name) const;  // throws; `this` is not null

 private:
  std::atomic<Tag> tag_;  // atomic, so that clearing it is never optimised away
  const int process_;
  const void* const copy_ = &kThisCopy;
};

template <class T, Tag kTag>
struct Handle : Head {
  using Object = T;
  explicit Handle(std::shared_ptr<T> shared) : Head(kTag), object(std::move(shared)) {}
  const std::shared_ptr<T> object;
  static constexpr Tag tag = kTag;
};

// Texts that live as long as the object behind a handle.
class KeptTexts {
 public:
  const char* keep(std::string text) const {
    const std::lock_guard lock(mutex_);
    return kept_.insert(std::move(text)).first->c_str();
  }

 private:
  mutable std::mutex mutex_;
  mutable std::set<std::string> kept_;
};

// A text for each thread, which lives until the same thread gets another one. Threads that have ended leave
// theirs to those that get their ids.
class TextOfThread {
 public:
  const char* keep(std::string text) {
    const std::lock_guard lock(mutex_);
    return (kept_[std::this_thread::get_id()] = std::move(text)).c_str();
  }

 private:
  std::mutex mutex_;
  std::map<std::thread::id, std::string> kept_;
};

// Holds what one thread at a time may use; throws Error(busy) while another one does.
template <class Mutex>
std::unique_lock<Mutex> sole_use(Mutex& mutex, std::string_view name) {
  std::unique_lock lock(mutex, std::try_to_lock);
  if (!lock) fail(Status::busy, "{} is in use on another thread", name);
  return lock;
}

[[noreturn]] void fail_null(std::string_view name);

// Returns the object behind a handle and keeps it alive during a call; name is the parameter's.
template <class H>
std::shared_ptr<typename H::Object> get(const H* handle, std::string_view name) {
  if (handle == nullptr) fail_null(name);
  handle->check(H::tag, name);
  return handle->object;
}

template <class H>
std::shared_ptr<typename H::Object> get_or_null(const H* handle, std::string_view name) {
  return handle == nullptr ? nullptr : get(handle, name);
}

}  // namespace trl::capi
