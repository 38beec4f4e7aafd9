// Rows that continue sequences, with the blocks of their keys and values: checked, and divided into tasks,
// once for the attention of all layers.
#pragma once
#include <vector>

#include "kernels/kernels.h"

namespace trl::kernels {

// Rows [begin, begin + rows) of a batch: they follow each other in one sequence, from `position` on.
struct CachedRun {
  int64_t begin, rows, position;
  // The sequence's, from its first position up to the last of these rows. Only one sequence owns the blocks
  // from `position` on.
  at::ArrayRef<at::Tensor> blocks;
};

class CachedRows {
 public:
  // heads: of the queries. The blocks' tensors must outlive it. Throws Error(internal) unless the runs are
  // all rows in order, each with blocks for its positions.
  CachedRows(at::ArrayRef<CachedRun> runs, int64_t heads, const CacheShape& shape, at::Device device);

  // Rows of a run in one block of positions.
  struct Part {
    int64_t row, rows, position;
    char* const* blocks;  // as of the run
  };
  // The attention of heads that share keys. own: no other task reads the keys of these rows.
  struct Task {
    Part part;
    int64_t head, heads;
    bool own;
  };

  at::ArrayRef<CachedRun> runs() const { return runs_; }
  int64_t rows() const { return rows_; }
  int64_t heads() const { return heads_; }
  int64_t group() const { return heads_ / shape_.kv_heads; }  // heads that share keys
  const CacheShape& shape() const { return shape_; }
  int64_t layer_bytes() const { return layer_bytes_; }
  // The longest first, so that no thread is left with a long one at the end; those that read the same blocks
  // follow each other.
  const std::vector<Task>& tasks() const { return tasks_; }
  const std::vector<Part>& shared_parts() const { return shared_; }  // of tasks that do not own their keys

 private:
  void check(const CachedRun& run) const;
  static bool goes_on(const CachedRun& run, const CachedRun& next);
  void add_tasks(const CachedRun& run, char* const* blocks, bool continued);
  void sort_tasks();

  const std::vector<CachedRun> runs_;
  const int64_t heads_;
  const CacheShape shape_;
  const int64_t layer_bytes_;
  int64_t rows_ = 0;
  std::vector<char*> blocks_;  // of all runs
  std::vector<Task> tasks_;
  std::vector<Part> shared_;
};

}  // namespace trl::kernels
