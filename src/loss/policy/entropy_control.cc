#include "loss/policy/entropy_control.h"

#include <algorithm>

#include "base/error.h"

namespace trl::loss {

namespace {

constexpr const char* kCoef = "entropy_coef";
constexpr const char* kLast = "last_world_entropy";

}  // namespace

void EntropyControl::end_step() {
  if (tokens_ == 0) return;
  last_ = sum_ / tokens_;
  coef_ = *last_ <= options_.target ? std::min(coef_ + options_.delta, options_.most)
                                    : std::max(coef_ - options_.delta, options_.least);
  sum_ = tokens_ = 0;
}

base::Json EntropyControl::state() const {
  return {{kCoef, coef_}, {kLast, last_ ? base::Json(*last_) : base::Json()}};
}

void EntropyControl::restore(const base::Json& state, std::string_view origin) {
  if (!state.is_object() || !state.contains(kCoef) || !state[kCoef].is_number())
    fail(Status::format, "{}: expected an object with a number {}", origin, kCoef);
  if (!state.contains(kLast) || !(state[kLast].is_null() || state[kLast].is_number()))
    fail(Status::format,
         "{}: {} is missing or not a number, expected the mean entropy of the last step, or null", origin,
         kLast);
  coef_ = state[kCoef];
  last_.reset();
  if (state[kLast].is_number()) last_ = state[kLast].get<double>();
  sum_ = tokens_ = 0;
}

}  // namespace trl::loss
