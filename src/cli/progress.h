// How far a run is, on stderr: a bar that redraws itself on a terminal, a line a record elsewhere.
#pragma once
#include <trl.h>

#include <chrono>
#include <cstdint>

namespace trl::cli {

// A trl_progress_fn: what is being read or tokenised, on one line that redraws itself.
int32_t show_opening(void* nothing, const char* phase, int64_t done, int64_t total);

class Progress {
 public:
  // enabled false: nothing is shown (--disable_tqdm)
  explicit Progress(bool enabled);
  void on_step(const trl_metrics* metrics);
  void on_log(const trl_metrics* metrics);
  void finish();
  static void clear_line();  // makes room for another line when stderr is a terminal

 private:
  void read(const trl_metrics* metrics);
  void draw(bool bar) const;
  bool enabled_;
  bool terminal_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  double first_step_ = 0, first_tokens_ = 0;  // the step at which this process began
  double step_ = 0, max_steps_ = 0, loss_ = 0, tokens_ = 0;
  bool has_loss_ = false;
};

}  // namespace trl::cli
