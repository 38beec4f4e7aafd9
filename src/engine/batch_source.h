// The rows of a run as micro-batches.
#pragma once
#include <cstdint>
#include <new>
#include <span>
#include <string_view>

#include "data/batch/batch.h"
#include "engine/host.h"

namespace trl::engine {

// Micro-batches in TRL's order, implemented by libtrl.so. exclusive.
class BatchSource {
 public:
  virtual int64_t batches_per_epoch() noexcept = 0;  // -1: not known (streaming)
  virtual int64_t rows() noexcept = 0;               // -1: not known
  // A fingerprint of the rows as trained on, in their order: a resume notices other rows. 0: not known.
  virtual uint64_t fingerprint() noexcept { return 0; }
  // Makes epoch `epoch` current and skips its first `skip` batches. evaluations_before: the number of
  // evaluation passes before the beginning of each epoch up to this one: Trainer's group_by_length draws from
  // torch's generator, and so does every such pass.
  virtual int32_t start_epoch(int64_t epoch, int64_t skip, std::span<const int64_t> evaluations_before,
                              ErrorSink& error) noexcept = 0;
  // Starts a pass instead of an epoch: each row once, in file order, `batch_size` rows per batch; the last
  // batch may be short. A run starts its epoch anew afterwards.
  virtual int32_t start_pass(int64_t batch_size, ErrorSink& error) noexcept = 0;
  // ok: **batch is valid until the next call; end: the epoch, or the pass, is over.
  virtual int32_t next(const data::Batch** batch, ErrorSink& error) noexcept = 0;
  // The state that a checkpoint keeps of a source whose next batches do not follow from the epoch and its
  // batches so far, such as a buffer of completions; valid until the next call. Empty: it has none.
  virtual int32_t state(std::string_view* /*bytes*/, ErrorSink& /*error*/) noexcept { return 0; }
  // Takes an earlier state(), directly after a start_epoch() with the position at which it was asked.
  virtual int32_t load_state(std::string_view /*bytes*/, ErrorSink& error) noexcept {
    try {
      error.set({Status::invalid_argument,
                 "these rows have no state, and the checkpoint has one: it is of other rows"});
    } catch (const std::bad_alloc&) {
      return static_cast<int32_t>(Status::out_of_memory);
    }
    return static_cast<int32_t>(Status::invalid_argument);
  }

 protected:
  ~BatchSource() = default;
};

}  // namespace trl::engine
