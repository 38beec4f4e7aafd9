// Shows the progress of a run on stderr: a line that redraws itself on a terminal, one line per record
// elsewhere.
#pragma once
#include <trl.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "cli/handles.h"

namespace trl::cli {

// Returns whether a line that redraws itself is shown: on a terminal, unless quiet or disable_tqdm says
// otherwise.
bool shows_progress(const Config& config);

// A trl_progress_fn: shows the object that is being read, prepared, opened or saved.
int32_t show_phase(void* nothing, const char* phase, int64_t done, int64_t total);

// Redraws one line in place, cut to the terminal's current width.
void redraw(const std::string& line);
void clear_line();  // makes room for another line

class Progress {
 public:
  // enabled false: nothing is shown (disable_tqdm, quiet)
  explicit Progress(bool enabled);
  void on_step(const trl_metrics* metrics);
  void on_log(const trl_metrics* metrics);
  void finish();
  // Returns the line for a terminal of that many columns: steps and the time left always, the rest as far as
  // it fits.
  std::string line(int width) const;

 private:
  void read(const trl_metrics* metrics);
  void draw() const;
  std::string left() const;
  bool enabled_;
  bool terminal_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  double first_step_ = 0, first_tokens_ = 0;  // the step at which this process began
  double step_ = 0, max_steps_ = 0, tokens_ = 0;
  std::optional<double> loss_;
};

// Return a record of a run for stdout: as JSON, or as a short line for a person at a terminal.
std::string json_record(const trl_metrics* metrics);
// Returns the values that fit in width columns, the most telling first: "step 10  loss 1.234  lr 2e-05".
std::string short_record(const trl_metrics* metrics, int width);

}  // namespace trl::cli
