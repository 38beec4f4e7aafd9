// One model's head over rows of hidden states, a tile of them at a time: the logits of the tile with their
// sums, and the products of the logits' gradients with the head and with the rows.
#pragma once
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "kernels/head/head.h"
#include "kernels/op.h"

namespace trl::kernels {

// Rows of the head's gradient whose values are not read from the head; restores them, so that nothing is
// added.
class KeptRows {
 public:
  KeptRows(const tensor::Split& gradient, const OwnRows* own) {
    if (own == nullptr || !gradient.high.defined()) return;
    ids_ = at::tensor(at::IntArrayRef(own->ids), at::kLong);
    rows_.high = gradient.high.index_select(0, ids_);
    if (gradient.low.defined()) rows_.low = gradient.low.index_select(0, ids_);
  }
  void put_back(const tensor::Split& gradient) const {
    if (rows_.high.defined()) at::Tensor(gradient.high).index_copy_(0, ids_, rows_.high);
    if (rows_.low.defined()) at::Tensor(gradient.low).index_copy_(0, ids_, rows_.low);
  }

 private:
  at::Tensor ids_;
  tensor::Split rows_;
};

class TiledHead {
 public:
  // All arguments must outlive it.
  TiledHead(const at::Tensor& hidden, Parameter& head, const HeadOptions& options,
            const HeadGradients& gradients);

  int64_t vocab() const { return vocab_; }
  int64_t width() const { return hidden_.size(1); }
  double logit_factor() const { return options_.scale / options_.temperature; }
  int64_t row_bytes() const;  // of a row of a tile

  // Prepares for these rows of hidden, ascending, at most tile_rows at a time.
  void begin(std::span<const int64_t> rows, int64_t tile_rows);
  // Computes the logits of a tile, the rows from the `first` on. others: products with the head beside those
  // that it makes itself, for the rehearsal's estimate.
  void compute(size_t first, int64_t rows, double others = 0);
  const HeadTile& tile() const { return tile_; }
  const HeadStats& stats(size_t row) const { return stats_[row]; }  // of the tile; nothing in a rehearsal
  float logit(int64_t token, size_t row) const;                     // as it was rounded
  // Adds the gradients of the tile's rows and of the head.
  void add_gradients(const HeadFactors& factors);
  // Ends the work on all rows.
  void finish() const { kept_.put_back(to_.d_head); }
  // Calls body(part, begin, end) for the vocabulary in parts, of whole blocks, on all threads.
  template <typename Body>
  void each_part(int64_t parts, const Body& body) const {
    const int64_t step = round_up((vocab() + parts - 1) / parts, kHeadBlock);
    tensor::parallel_for((vocab() + step - 1) / step, 1, [&](int64_t from, int64_t to) {
      for (int64_t part = from; part < to; ++part)
        body(part, part * step, std::min(vocab(), (part + 1) * step));
    });
  }

 private:
  HeadTile tile_of(int64_t rows) const;
  void note(double others) const;
  template <typename Body>
  void each_part_with_work(int64_t parts, const Body& body) const;
  template <typename Body>
  void each_piece(int64_t begin, int64_t end, float* work, const Body& body) const;
  void sum_up();
  void add_own_gradient(const HeadFactors& factors);
  void add_rows();

  const at::Tensor& hidden_;
  const std::unique_ptr<const tensor::Encoded> patched_;  // null: no own rows
  const tensor::Encoded* const encoded_;                  // in place of head_
  const std::optional<tensor::Reading> reading_;
  const at::Tensor head_;
  const int64_t vocab_;
  const HeadOptions& options_;
  const HeadGradients& to_;
  const KeptRows kept_;
  const bool stays_split_;
  std::span<const int64_t> rows_;
  size_t first_ = 0;  // index in rows_ of the tile's first row
  HeadTile tile_ = {};
  std::vector<HeadStats> stats_;  // of the tile, kParts times: the first are those of the whole vocabulary
  at::Tensor low_;
  int64_t work_floats_ = 0;
  at::Tensor logits_, operand_, packed_, shares_;
};

// Rows of a tile: as many as fit, or `wanted` if that is not 0. row_bytes: of all heads that compute it.
int64_t rows_of_tile(int64_t count, int64_t row_bytes, int64_t wanted);

}  // namespace trl::kernels
