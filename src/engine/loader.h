// Finds and opens libtrl_engine.so. An object, owned by capi/ for the process; opens at most one engine.
#pragma once
#include <mutex>
#include <string>

#include "engine/engine.h"

namespace trl::engine {

// trl/libtrl_engine.so in the directory of the library (or program) that holds this code.
std::string default_engine_path();

class Loader {
 public:
  explicit Loader(std::string engine_path = default_engine_path()) : path_(std::move(engine_path)) {}

  // The engine, opened by the first call that succeeds; later calls return the same one. Never closed. any
  // thread. Throws Error: not_found (no engine file), unsupported (another libtorch is mapped, or a library
  // is missing). host is lent to the engine for the rest of the process.
  Engine& open(Host& host);
  bool opened();

 private:
  const std::string path_;
  std::mutex mutex_;
  Engine* engine_ = nullptr;
};

}  // namespace trl::engine
