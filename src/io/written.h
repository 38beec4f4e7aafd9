// Tells the progress of a call how many bytes of a file it has written.
#pragma once
#include <cstddef>
#include <cstdint>

#include "base/interrupt.h"

namespace trl::io {

class Written {
 public:
  explicit Written(int64_t total) : total_(total) { add(0); }
  void add(size_t bytes) { base::progress("save", done_ += static_cast<int64_t>(bytes), total_); }

 private:
  int64_t done_ = 0;
  const int64_t total_;
};

}  // namespace trl::io
