// Where prepared rows are kept: ids in chunks that never move, one bit a token for "trained", 24 bytes a row.
// Labels that are neither the id nor -100 (only rows that came with labels have them) are kept apart. Charged
// as kind data.
#pragma once
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "data/sft.h"
#include "data/sft_rows.h"

namespace trl::data {

class ExampleStore final : public Examples {
 public:
  explicit ExampleStore(base::MemoryCounter& memory) : memory_(memory) {}
  ~ExampleStore() override { memory_.release(base::MemoryKind::data, charged_); }
  ExampleStore(const ExampleStore&) = delete;
  ExampleStore& operator=(const ExampleStore&) = delete;

  void add(const Tokens& tokens, int64_t source_row);
  void reorder(const std::vector<int64_t>& order);  // row i becomes what was row order[i]
  void set_completion_only_loss(bool value) { completion_only_ = value; }

  int64_t size() const override { return static_cast<int64_t>(rows_.size()); }
  std::pair<const int32_t*, int64_t> input_ids(int64_t row) const override;
  void copy_labels(int64_t row, int32_t* out) const override;
  int64_t source_row(int64_t row) const override { return at(row).source; }
  int64_t total_tokens() const override { return total_; }
  bool completion_only_loss() const override { return completion_only_; }

 private:
  struct Chunk {
    std::vector<int32_t> ids;
    std::vector<bool> trained;
  };
  struct Place {
    int32_t chunk;
    int32_t begin;
    int64_t length;
    int64_t source;
  };
  const Place& at(int64_t row) const { return rows_[static_cast<size_t>(row)]; }
  void charge(size_t bytes);
  Chunk& room_for(size_t tokens);

  base::MemoryCounter& memory_;
  int64_t charged_ = 0;
  std::vector<Chunk> chunks_;
  std::vector<Place> rows_;
  std::unordered_map<int64_t, std::vector<int32_t>> own_labels_;  // by source row
  int64_t total_ = 0;
  bool completion_only_ = false;
};

}  // namespace trl::data
