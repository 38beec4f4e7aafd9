// Makes micro-batches of rows that are prepared and kept, in the order of a run. Derived classes build the
// batch from its rows.
#pragma once
#include "data/batch/batch_stream.h"
#include "data/batch/prefix_tree.h"
#include "data/prepare/preparation.h"

namespace trl::data {

class OrderedBatches : public BatchStream {
 public:
  int64_t rows() final { return settled().rows; }
  int64_t batches_per_epoch() final { return data::batches_per_epoch(settled()); }
  uint64_t fingerprint() final { return rows_.fingerprint(); }
  int64_t longest_row() final;
  std::optional<LongRow> longer_than(int64_t tokens) final;
  void tell() final { rows_.tell(); }
  void start_epoch(int64_t epoch, int64_t skip, std::span<const int64_t> evaluations_before) final;
  void start_pass(int64_t batch_size) final;
  bool next(Batch& out) final;

 protected:
  // rows: owned by the derived class.
  OrderedBatches(const OrderOptions& order, Preparation& rows) : rows_(rows), options_(order) {}

 private:
  // Returns the tokens of each row; waits for all.
  virtual std::vector<uint32_t> lengths() const = 0;
  // Returns the longest sequence of a row if it has more tokens.
  virtual std::optional<LongRow> longer(int64_t row, int64_t tokens) const = 0;
  virtual std::vector<int32_t> beginning(int64_t row) const = 0;  // tokens that all its sequences begin with
  virtual void make(std::span<const int64_t> rows, Batch& out) const = 0;

  // Asks for the number of rows, which may require a wait, as late as possible.
  const OrderOptions& settled();

  Preparation& rows_;
  OrderOptions options_;
  std::vector<uint32_t> lengths_;  // group_by_length
  WindowedOrder order_;
  int64_t epoch_ = -1, at_ = 0;
};

}  // namespace trl::data
