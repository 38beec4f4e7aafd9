// SFT's data: turns rows into token ids and labels (TRL's rules), cuts, drops or packs them, keeps them, and
// reads them in any order.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "data/prepare/example.h"
#include "data/prepare/preparation.h"
#include "data/source/source.h"
#include "data/source/table.h"

namespace trl::data {

// Prepared rows, read in any order: exclusive, like Preparation.
class Examples {
 public:
  Examples(const std::shared_ptr<const Table>& table, const PrepareContext& context);
  Preparation& rows() { return rows_; }
  int64_t size() { return rows_.size(); }
  Example read(int64_t row) { return decode_example(rows_.read(row)); }
  std::vector<uint32_t> lengths();  // of all rows, in tokens; waits for all
  int64_t total_tokens() { return rows_.total_tokens(); }
  bool completion_only_loss() const { return completion_only_; }  // the resolved value

 private:
  bool completion_only_ = false;
  Preparation rows_;
};

// See Preparation. Warnings count dropped and cut rows; throws Error(format) if no row is left.
std::unique_ptr<Examples> prepare_sft(const std::shared_ptr<const Table>& table,
                                      const PrepareContext& context);
std::unique_ptr<Examples> prepare_sft(Source& source, const PrepareContext& context);  // reads it to its end

}  // namespace trl::data
