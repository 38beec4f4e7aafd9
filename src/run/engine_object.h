// Owns an object of the engine, which is released, not deleted.
#pragma once
#include <memory>

#include "engine/engine.h"

namespace trl::run {

struct Release {
  template <class T>
  void operator()(T* object) const noexcept {
    object->release();
  }
};

template <class T>
using EngineObject = std::unique_ptr<T, Release>;

}  // namespace trl::run
