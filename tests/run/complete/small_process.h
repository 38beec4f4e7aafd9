// A process of a test, without an engine of its own.
#pragma once
#include <stdexcept>

#include "run/environment.h"

namespace trl::test {

// It has 1000 bytes left. Calls of an engine are those of the test's objects.
class SmallProcess final : public run::Environment {
 public:
  SmallProcess() { memory_.set_limit(1000); }
  engine::Engine& engine() override { throw std::logic_error("no engine"); }
  int32_t use_engine(run::Use, const std::function<int32_t()>& body) override { return body(); }
  base::MemoryCounter& memory() override { return memory_; }
  base::Interrupt& background() override { throw std::logic_error("no background"); }
  int threads() override { return 1; }
  base::ThreadPool& pool() override { throw std::logic_error("no pool"); }
  base::LogSink& log() override { return log_; }

 private:
  base::MemoryCounter memory_;
  base::NullLog log_;
};

}  // namespace trl::test
