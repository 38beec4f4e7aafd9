// The same bytes on their plainest way: what a message to a server is compared with.
#pragma once
#include <cstddef>
#include <memory>

namespace trl::bench {

// Memory that has been written before, and as much to copy it to.
class PlainWays {
 public:
  explicit PlainWays(size_t bytes);
  double copy();      // seconds of one thread
  double loopback();  // seconds over a connection of this machine, with a thread at each end

 private:
  const size_t bytes_;
  const std::unique_ptr<char[]> from_, to_;
};

}  // namespace trl::bench
