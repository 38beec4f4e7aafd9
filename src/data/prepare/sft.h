// SFT's data: turns rows into token ids and labels (TRL's rules), cuts, drops or packs them, keeps them, and
// reads them in any order.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "data/prepare/example.h"
#include "data/prepare/prepare_context.h"
#include "data/source/source.h"
#include "data/source/table.h"

namespace trl::data {

// Prepared rows. Errors of rows that could not be prepared, and counts of cut and dropped rows, are reported
// by the next call: exclusive.
class Examples {
 public:
  Examples() = default;
  virtual ~Examples() = default;
  Examples(const Examples&) = delete;
  Examples& operator=(const Examples&) = delete;
  virtual int64_t size() = 0;  // waits until it is known
  virtual Example read(int64_t row) = 0;
  virtual std::vector<uint32_t> lengths() = 0;  // of all rows, in tokens; waits for all
  virtual int64_t total_tokens() = 0;           // waits for all
  virtual void tell() = 0;  // at the end of a run: reports once the cut and dropped rows among those read
  virtual uint64_t fingerprint() const = 0;       // of the rows and everything that they are made with
  virtual bool completion_only_loss() const = 0;  // the resolved value
};

// See Preparation. Warnings count dropped and cut rows; throws Error(format) if no row is left.
std::unique_ptr<Examples> prepare_sft(std::shared_ptr<const Table> table, const PrepareContext& context);
std::unique_ptr<Examples> prepare_sft(Source& source, const PrepareContext& context);  // reads it to its end

}  // namespace trl::data
