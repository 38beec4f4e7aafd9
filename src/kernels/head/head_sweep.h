// One sweep over the rows that have a target, a tile at a time: the values of its targets, and from the
// formula's terms the gradients of the rows and of the head, before the next tile is made.
#pragma once
#include "kernels/head/tiled_head.h"

namespace trl::kernels {

class HeadSweep {
 public:
  // All arguments must outlive it. formula: null: values only.
  HeadSweep(const at::Tensor& hidden, Parameter& head, const HeadTargets& targets,
            const TokenFormula* formula, const HeadOptions& options, const HeadGradients& gradients);

  // The sum of the formula's terms. values: if not null, gets those of each target.
  double run(std::vector<TokenValues>* values);

 private:
  struct Terms;
  Terms take(size_t first, size_t rows, std::vector<TokenValues>* values);
  void add_gradients(Terms& terms);

  TiledHead head_;
  const HeadTargets& targets_;
  const TokenFormula* const formula_;
  const int64_t wanted_rows_;
  const bool learns_;
  std::vector<int64_t> rows_;           // the rows that have a target, once each
  std::vector<size_t> starts_;          // the index of each row's first target, and the end of all
  const std::vector<float> generated_;  // log-probabilities of the targets; empty: those of the sweep
  double sum_ = 0;
};

}  // namespace trl::kernels
