// The host may have changed its thread's floating-point settings (fesetround, flushed denormals, traps).
// Results must not depend on them.
#pragma once
#include <cfenv>

namespace trl::base {

// Sets rounding to nearest, denormals kept, nothing trapped; its destructor restores all, the flags too.
class PlainArithmetic {
 public:
  PlainArithmetic() noexcept {
    std::fegetenv(&before_);
    std::fesetenv(FE_DFL_ENV);
  }
  ~PlainArithmetic() { std::fesetenv(&before_); }
  PlainArithmetic(const PlainArithmetic&) = delete;
  PlainArithmetic& operator=(const PlainArithmetic&) = delete;
  const std::fenv_t& before() const { return before_; }

 private:
  std::fenv_t before_;
};

}  // namespace trl::base
