// The lengths of a dataset's rows in tokens, and the cost of each max_length: rows cut, tokens lost, padding,
// packed rows, optimizer steps. Plain numbers: data/lengths/profile_lengths.h counts them, and
// report/length_report.h shows them.
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace trl::telemetry {

inline constexpr std::array<int, 7> kPercentiles = {5, 25, 50, 75, 90, 95, 99};
std::string percentile_name(int percent);  // "p95"; "median"

struct LengthHistogram {
  int64_t start = 0;  // bar i counts lengths from start + i * width to below start + (i + 1) * width
  int64_t width = 1;  // 1, 2 or 5 times a power of ten
  std::vector<int64_t> counts;  // of rows
  int64_t above = 0;            // rows longer than every bar, if a few are far longer than the rest
  int64_t end() const { return start + width * static_cast<int64_t>(counts.size()); }
};

struct LengthDistribution {
  std::string name;  // "total", "prompt" ...
  int64_t rows = 0, tokens = 0;
  int64_t min = 0, max = 0;
  double mean = 0;
  std::array<double, kPercentiles.size()> percentiles{};  // as in numpy.percentile: interpolated
  LengthHistogram histogram;
  double percentile(int percent) const;  // one of kPercentiles
};

// The ways to form batches from rows; the rows are those of a run's first epoch, in its order.
enum class Layout : uint8_t {
  padded,           // padded to the longest row of the batch
  group_by_length,  // the same, in the order of train_sampling_strategy group_by_length
  padding_free,     // concatenated
  bfd,              // packed; packed rows are concatenated (TRL's packing implies padding_free)
  bfd_split,
  wrapped,  // packed; padded, since the last packed row of a thousand rows is shorter
};
inline constexpr std::array kLayouts = {Layout::padded, Layout::group_by_length, Layout::padding_free,
                                        Layout::bfd,    Layout::bfd_split,       Layout::wrapped};
std::string_view layout_name(Layout layout);
bool is_packed(Layout layout);

// The cost of one epoch.
struct LayoutCost {
  Layout layout = Layout::padded;
  int64_t rows = 0;     // rows in the batches: remaining rows, or packed rows
  int64_t batches = 0;  // of per_device_train_batch_size
  int64_t steps = 0;    // of the optimizer: gradient_accumulation_steps batches each
  int64_t tokens = 0;   // in the batches, without padding
  int64_t padding = 0;
  int64_t lost = 0;  // tokens of the dataset that are in no batch
};

struct LengthLimit {
  int64_t max_length = 0;
  int64_t rows_cut = 0;             // longer than max_length
  int64_t rows_dropped = 0;         // without a trained token within max_length; packing drops none
  int64_t tokens_cut = 0;           // beyond max_length
  int64_t peak_bytes = 0;           // predicted for training with it; 0: not known
  std::vector<LayoutCost> layouts;  // in the order of kLayouts; empty for preference rows
};

struct LengthProfile {
  std::string name;    // of the dataset
  std::string format;  // of its rows, in words
  int64_t rows = 0;
  int64_t tokens = 0;
  int64_t batch_size = 0, accumulation = 0;  // of the counted batches and steps
  // total, then prompt and completion: the untrained and the trained part. If all of every row is trained,
  // only total; for prompt-completion rows always the two columns, except with assistant_only_loss.
  // Preference rows have prompt+chosen and prompt+rejected instead of total, and prompt if it is a column.
  std::vector<LengthDistribution> lengths;
  std::vector<LengthLimit> limits;  // shortest first
  std::string no_peaks;             // why no peak is predicted although one was requested
};

std::string to_json(const LengthProfile& profile);
double share(int64_t part, int64_t whole);  // 0 if whole is 0

}  // namespace trl::telemetry
