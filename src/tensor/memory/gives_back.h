// Memory that goes back to the system when an object ends, whatever else of its kind lives on.
#pragma once

namespace trl::tensor {

// Declared as the first member of an object, so that it is destroyed after all others: gives back what is
// free then, the stored blocks and malloc's pages. Does nothing in a rehearsal, which has no pages.
class GivesBack {
 public:
  GivesBack() = default;
  ~GivesBack();
  GivesBack(const GivesBack&) = delete;
  GivesBack& operator=(const GivesBack&) = delete;
};

}  // namespace trl::tensor
