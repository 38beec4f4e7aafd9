// Lets one allocation of the server's threads fail.
#pragma once
#include <cstdint>

namespace trl::serve::test {

void be_a_thread_of_the_server() noexcept;
// number: of the allocation from now on, 1 is the next; 0: none fails.
void fail_allocation(int64_t number) noexcept;
bool has_failed() noexcept;

// While one lives, allocations of the thread do not fail, or fail again within that.
class Plenty {
 public:
  Plenty() noexcept;
  ~Plenty();
  Plenty(const Plenty&) = delete;
  Plenty& operator=(const Plenty&) = delete;
};
class Scarce {
 public:
  Scarce() noexcept;
  ~Scarce();
  Scarce(const Scarce&) = delete;
  Scarce& operator=(const Scarce&) = delete;

 private:
  const int before_;
};

}  // namespace trl::serve::test
