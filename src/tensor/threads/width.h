// The widths of threads that compute at the same time, one of which serves requests beside the others: how
// many threads each has for its parallel regions.
#pragma once

namespace trl::tensor {

int all_threads();  // of set_threads()

// During its lifetime this thread has this share of all threads, at least one and all but one if there are
// several; those that have no share have the rest, and keep it for a moment after the end, since the next
// piece of work follows soon.
class WidthScope {
 public:
  explicit WidthScope(double share);
  ~WidthScope();
  WidthScope(const WidthScope&) = delete;
  WidthScope& operator=(const WidthScope&) = delete;

 private:
  const int before_;
};

}  // namespace trl::tensor
