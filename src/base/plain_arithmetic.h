// The host may have changed its thread's floating-point settings (fesetround, flushed denormals, traps).
// Results must not depend on them.
#pragma once
#include <cfenv>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

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

// Whether this thread's vector arithmetic is plain already: a fast check.
inline bool is_arithmetic_plain() noexcept {
#if defined(__x86_64__)
  constexpr unsigned kFlags = 0x3f, kAllMasked = 0x1f80;  // of MXCSR
  return (_mm_getcsr() & ~kFlags) == kAllMasked;
#elif defined(__aarch64__)
  return __builtin_aarch64_get_fpcr() == 0;
#else
  return false;
#endif
}

}  // namespace trl::base
