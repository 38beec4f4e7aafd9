// A configuration handle: keys and values, and the texts handed out, which live as long as it does.
#pragma once
#include <mutex>
#include <set>
#include <shared_mutex>
#include <string>

#include "capi/handle.h"
#include "config/config.h"
#include "trl/trl.h"

namespace trl::capi {

class SharedConfig {
 public:
  // Changes a copy and keeps it if body does not throw. Throws Error(busy) while another thread uses it.
  template <class Body>
  void change(Body&& body) {
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock) fail(Status::busy, "config is in use on another thread");
    config::Config copy = values_;
    body(copy);
    values_ = std::move(copy);
  }
  config::Config copy() const {
    const std::shared_lock lock(mutex_);
    return values_;
  }
  // Keeps a text as long as this configuration exists.
  const char* keep(std::string text) const {
    const std::lock_guard lock(kept_mutex_);
    return kept_.insert(std::move(text)).first->c_str();
  }

 private:
  mutable std::shared_mutex mutex_;
  config::Config values_;
  mutable std::mutex kept_mutex_;
  mutable std::set<std::string> kept_;
};

}  // namespace trl::capi

struct trl_config : trl::capi::Handle<trl::capi::SharedConfig, trl::capi::Tag::config> {
  using Handle::Handle;
};

namespace trl::capi {

// The options parameter of a function: a copy, empty for NULL.
inline config::Config options_of(const trl_config* options) {
  const auto shared = get_or_null(options, "options");
  return shared ? shared->copy() : config::Config();
}

}  // namespace trl::capi
