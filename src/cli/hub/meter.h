// Shows the progress of a download on stderr: a line that redraws itself on a terminal; elsewhere one line at
// its beginning and one at its end.
#pragma once
#include <chrono>
#include <cstdint>
#include <string>

namespace trl::cli::hub {

class Meter {
 public:
  Meter(std::string name, size_t files, int64_t bytes);
  ~Meter();
  Meter(const Meter&) = delete;
  Meter& operator=(const Meter&) = delete;

  void had(int64_t bytes);  // bytes of an earlier download, which this one resumes
  void came(int64_t bytes);
  void lost(int64_t bytes);  // discards bytes, which must be received again
  void file_done() { ++files_done_; }
  void draw(bool now = false);
  void pause() const;  // makes room for another line
  void finish();       // everything is received

 private:
  using Clock = std::chrono::steady_clock;
  std::string name_;
  size_t files_, files_done_ = 0;
  int64_t bytes_, had_ = 0, came_ = 0;
  bool terminal_;
  Clock::time_point start_ = Clock::now(), drawn_{};
};

}  // namespace trl::cli::hub
