// Services of the process and of a runtime, for the runs that work for it: the engine, the memory counter,
// threads and a log. Outlives every run.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>

#include "base/interrupt.h"
#include "base/log.h"
#include "base/memory/memory.h"
#include "base/threads/thread_pool.h"
#include "engine/engine.h"

namespace trl::run {

// Purposes that the engine is used for. The first use of each creates objects that last until the process
// ends.
enum class Use : uint8_t { open, train, evaluate, save, generate };

class Environment {
 public:
  virtual engine::Engine& engine() = 0;  // opened on first use
  // Runs body, a call of the engine, which returns a status.
  virtual int32_t use_engine(Use use, const std::function<int32_t()>& body) = 0;
  virtual base::MemoryCounter& memory() = 0;
  virtual base::Interrupt& background() = 0;  // for work that outlives the call that began it
  virtual int threads() = 0;
  virtual base::ThreadPool& pool() = 0;
  virtual base::LogSink& log() = 0;

 protected:
  ~Environment() = default;
};

// Owns an object of the engine, which is released, not deleted.
struct Release {
  template <class T>
  void operator()(T* object) const noexcept {
    object->release();
  }
};

template <class T>
using EngineObject = std::unique_ptr<T, Release>;

}  // namespace trl::run
