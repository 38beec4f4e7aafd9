// Returns memory to the system when an object ends, even if other objects of its kind still exist.
#pragma once

namespace trl::tensor {

// Declare it as the first member of an object, so that it is destroyed after all others: returns the memory
// that is free then, the stored blocks and malloc's pages. Does nothing in a rehearsal, which has no pages.
class GivesBack {
 public:
  GivesBack() = default;
  ~GivesBack();
  GivesBack(const GivesBack&) = delete;
  GivesBack& operator=(const GivesBack&) = delete;
};

}  // namespace trl::tensor
