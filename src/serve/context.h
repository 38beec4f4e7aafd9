// The objects that the handlers of routes work with.
#pragma once
#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/log.h"
#include "serve/engine/forms.h"
#include "serve/engine/model.h"
#include "serve/options.h"
#include "serve/text_pool.h"

namespace trl::serve {

struct Context {
  const capi::ServeTable& table;
  trl_runtime* runtime = nullptr;  // of the log
  ServerOptions options;
  std::atomic<int64_t> connections{0}, slow_readers{0}, held_bytes{0};
  TextPool texts;
  Forms forms{table};
  std::vector<std::unique_ptr<ServedModel>> models;
  std::atomic<bool> draining{false};

  // Returns the model of a name; without one the first. Throws Refusal(404).
  ServedModel& model_named(const std::optional<std::string>& name) const;
  // Loads an adapter whose directory may be anywhere, as Adapters::load. This outlives it.
  void load_adapter(ServedModel& model, const std::string& name, const std::string& path, bool replace,
                    Adapters::Done done) const;
  // Writes a line into the log; text may quote requests: control characters become spaces. A line
  // that finds no memory is lost.
  void log(base::LogLevel level, std::string_view text) const noexcept;
};

}  // namespace trl::serve
