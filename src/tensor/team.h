// The threads of parallel regions: libgomp keeps a team of them for each thread that computes.
#pragma once

namespace trl::tensor {

// Called when a call computes on this thread. Starts its team of threads() threads, which take no signals and
// have names; libtorch's own regions use as many threads.
class Team {
 public:
  Team();
  ~Team();
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

 private:
  const int before_;
};

void end_team();  // of this thread; the next call that computes starts it again

}  // namespace trl::tensor
