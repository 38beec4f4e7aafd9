// Says how many proposed ids are worth their rows, by the time that steps take for their rows and by how
// often proposals are right. Without tensors. Its answers change no token, only when it comes.
#pragma once
#include <cstdint>
#include <map>
#include <span>
#include <vector>

namespace trl::generate {

class Pace {
 public:
  // Takes the seconds of a step that had this many rows of sequences that decode. Without memory for them
  // they are left out.
  void record(int64_t rows, double seconds) noexcept;

  struct Proposal {
    int64_t ids = 0;
    double right = 0;  // the probability that an id is right after right ones
  };
  // Returns how many ids of each proposal to compute beside so many rows, to write the most tokens a second
  // by the steps recorded lately: none if that is not clearly more than without proposals, or if no step
  // without them was recorded.
  std::vector<int64_t> worth(int64_t rows, std::span<const Proposal> proposals) const;

 private:
  struct Mean {
    double seconds = 0;
    int64_t step = 0;  // the last one that it is of
  };
  bool knows(int64_t rows) const;
  double seconds(int64_t rows) const;

  std::map<int64_t, Mean> by_rows_;
  int64_t steps_ = 0;
};

}  // namespace trl::generate
