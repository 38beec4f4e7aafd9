// A configuration handle: keys and values, and the texts handed out, which live as long as it does.
#pragma once
#include <mutex>
#include <shared_mutex>
#include <string>

#include "capi/handle.h"
#include "config/config.h"
#include "trl/trl.h"

namespace trl::capi {

class SharedConfig : public KeptTexts {
 public:
  // Changes a copy and keeps it if body does not throw. Throws Error(busy) while another thread uses it.
  template <class Body>
  void change(Body&& body) {
    const auto lock = sole_use(mutex_, "config");
    config::Config copy = values_;
    body(copy);
    values_ = std::move(copy);
  }
  config::Config copy() const {
    const std::shared_lock lock(mutex_);
    return values_;
  }

 private:
  mutable std::shared_mutex mutex_;
  config::Config values_;
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
