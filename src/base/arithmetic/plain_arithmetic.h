// Guards results against the host's floating-point settings of the thread (fesetround, flushed denormals,
// traps), on which they must not depend.
#pragma once
#include <cfenv>

namespace trl::base {

// Sets rounding to nearest, keeps denormals and traps nothing; the destructor restores all, the flags too.
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
