// SFT's data: rows -> token ids and labels (TRL's rules), cut, dropped or packed, kept, and read in any
// order.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "data/prepare/example.h"
#include "data/prepare/prepare_context.h"
#include "data/source/source.h"
#include "data/source/table.h"

namespace trl::data {

// Prepared rows. Rows that could not be prepared, and counts of those that were cut and dropped, are reported
// by the next call: exclusive.
class Examples {
 public:
  Examples() = default;
  virtual ~Examples() = default;
  Examples(const Examples&) = delete;
  Examples& operator=(const Examples&) = delete;
  virtual int64_t size() = 0;  // waits for what decides it
  virtual Example read(int64_t row) = 0;
  virtual std::vector<uint32_t> lengths() = 0;  // of all rows, in tokens; waits for all
  virtual int64_t total_tokens() = 0;           // waits for all
  virtual void tell() = 0;  // at the end of a run: what was cut and dropped as far as rows were read, once
  virtual uint64_t fingerprint() const = 0;       // of the rows and of all that they are made with
  virtual bool completion_only_loss() const = 0;  // as it was resolved
};

// See Preparation. Dropped and cut rows are counted in warnings; nothing left is Error(format).
std::unique_ptr<Examples> prepare_sft(std::shared_ptr<const Table> table, const PrepareContext& context);
std::unique_ptr<Examples> prepare_sft(Source& source, const PrepareContext& context);  // reads it to its end

}  // namespace trl::data
