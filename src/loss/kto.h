// The losses of KTO (Ethayarajh et al. 2024) over the rows of one micro-batch: log-ratios of sequences -> a
// scalar and its derivatives. Pure; as in TRL's KTOTrainer._compute_loss.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace trl::loss {

enum class KtoLoss : uint8_t { kto, apo_zero_unpaired };

struct KtoOptions {
  KtoLoss loss = KtoLoss::kto;
  double beta = 0.1;
  double desirable_weight = 1, undesirable_weight = 1;
};

struct KtoRow {
  double ratio = 0;  // the completion's log-probability minus the reference's
  bool desirable = false;
};

// The baseline of all rows: the mean log-ratio of prompts with completions of other rows, at least 0, a
// constant. Without any: 0.
double kto_baseline(std::span<const double> ratios);

struct KtoResult {
  double loss = 0;
  std::vector<double> by_ratio;
};
// The mean over rows. baseline: only used by loss kto.
KtoResult kto_loss(std::span<const KtoRow> rows, double baseline, const KtoOptions& options);

}  // namespace trl::loss
