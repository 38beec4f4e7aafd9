// One sweep over the rows that have a target, a tile at a time: the logits of the tile with their sums, the
// values of its targets, and from the formula's terms the gradients of the rows and of the head, before the
// next tile is made.
#pragma once
#include <optional>

#include "kernels/head/head.h"
#include "kernels/op.h"

namespace trl::kernels {

class HeadSweep {
 public:
  // All arguments must outlive it. formula: null: values only.
  HeadSweep(const at::Tensor& hidden, Parameter& head, const HeadTargets& targets,
            const TokenFormula* formula, const HeadOptions& options, const HeadGradients& gradients);

  // The sum of the formula's terms. values: if not null, gets those of each target.
  double run(std::vector<TokenValues>* values);

 private:
  struct Tile;
  int64_t vocab() const { return vocab_; }
  int64_t width() const { return hidden_.size(1); }
  double logit_factor() const { return options_.scale / options_.temperature; }
  HeadTile tile_of(int64_t rows) const;
  void note(int64_t rows) const;
  template <typename Body>
  void each_part(int64_t parts, const Body& body) const;
  template <typename Body>
  void each_piece(const HeadTile& whole, int64_t begin, int64_t end, float* work, const Body& body) const;
  void run_tile(size_t first, int64_t rows, std::vector<TokenValues>* values);
  void sum_up(const HeadTile& tile);
  void take(Tile& tile, std::vector<TokenValues>* values);
  void add_gradients(Tile& tile);
  void add_own_gradient(const Tile& tile, const HeadFactors& factors);
  void add_rows(const Tile& tile);

  const at::Tensor& hidden_;
  const std::unique_ptr<const tensor::Encoded> patched_;  // null: no own rows
  const tensor::Encoded* const encoded_;                  // in place of head_
  const std::optional<tensor::Reading> reading_;
  const at::Tensor head_;
  const int64_t vocab_;
  const HeadTargets& targets_;
  const TokenFormula* const formula_;
  const HeadOptions& options_;
  const HeadGradients& to_;
  const bool stays_split_;
  std::vector<int64_t> rows_;           // the rows that have a target, once each
  std::vector<size_t> starts_;          // the index of each row's first target, and the end of all
  const std::vector<float> generated_;  // log-probabilities of the targets; empty: those of the sweep
  std::vector<HeadStats> stats_;  // of the tile, kParts times: the first are those of the whole vocabulary
  at::Tensor low_;
  int64_t work_floats_ = 0;
  at::Tensor logits_, operand_, packed_, shares_;
  double sum_ = 0;
};

}  // namespace trl::kernels
