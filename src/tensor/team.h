// The threads that parallel regions run on: libgomp keeps a team for each thread that computes.
#pragma once

namespace trl::tensor {

// A call computes on this thread: its team is there, of threads() threads that take no signals and have
// names, and libtorch's own regions are as wide.
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
