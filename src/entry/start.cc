#include "entry/start.h"

#include <atomic>

#include "base/memory/pages.h"
#include "base/memory/resident.h"

namespace trl::entry {

namespace {

// Gives the pages back once: pages that are resident later have been needed since. Returns the resident bytes
// before.
int64_t give_back() {
  static const int64_t before = [] {
    const int64_t bytes = base::resident_bytes();
    base::give_back_pages();
    return bytes;
  }();
  return before;
}

std::atomic<bool> model_was_opened = false;

}  // namespace

int64_t start_to_come() {
  const int64_t bytes = give_back();
  return model_was_opened ? 0 : bytes;
}

void leave_start_behind() {
  give_back();
  model_was_opened = true;
}

}  // namespace trl::entry
