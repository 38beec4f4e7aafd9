// Prepares all rows in one pass, on a separate thread if that pays off, while prepared rows are already being
// read. The pass is the same for every kind of rows.
#pragma once
#include <atomic>
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>

#include "base/interrupt.h"
#include "data/prepare/prepare_context.h"
#include "data/prepare/record_store.h"
#include "data/prepare/row_kind.h"
#include "data/source/table.h"

namespace trl::data {

// Small datasets are prepared at once. Of a larger dataset all rows are read before the first batch only if
// their number is unknown otherwise (packing, rows of token ids, pairs that become unpaired), and then
// concurrently with the caller's work until size(); else they are read while the first batches are trained
// on, and only rows so long that they may be dropped are read earlier. Errors of rows that could not be
// prepared, and counts of cut and dropped rows, are reported by the next call: exclusive.
class Preparation {
 public:
  Preparation(std::shared_ptr<const Table> table, const PrepareContext& context,
              std::unique_ptr<const RowKind> kind);
  ~Preparation();  // ends the pass
  Preparation(const Preparation&) = delete;
  Preparation& operator=(const Preparation&) = delete;
  int64_t size();                 // waits until it is known
  std::string read(int64_t row);  // its record
  void wait();                    // waits for all rows
  int64_t total_tokens();         // waits for all
  void tell();  // at the end of a run: reports once the cut and dropped rows among those read
  uint64_t fingerprint() const { return fingerprint_; }  // of the rows and everything that they are made with

 private:
  void start();
  void run();  // the pass
  void prepare_rows(std::span<const int64_t> rows, Counts& counts);
  void find_dropped();
  void report();                          // reports the events of the pass, once
  int64_t source_row(int64_t row) const;  // for a row that the pass has not reached

  const std::shared_ptr<const Table> table_;
  const config::DataArguments arguments_;
  const PrepareContext context_;
  const RowCache cache_;
  const std::unique_ptr<const RowKind> kind_;
  const uint64_t fingerprint_;
  std::vector<uint32_t> shuffled_;  // shuffle_dataset: the prepared row at each place; empty: in their order

  bool lazy_ = false;
  std::vector<int64_t> dropped_;  // lazy: source rows, ascending
  std::unique_ptr<RecordStore> store_;
  std::atomic<int64_t> kept_{0};  // rows in the store

  // The interrupt of the pass: it ends with this object, or with any other interrupt of background work.
  class Pass final : public base::Interrupt {
   public:
    explicit Pass(base::Interrupt* background) : background_(background) { asked_ = 1; }
    void stop() noexcept { stopped_ = true; }
    bool stopped() const noexcept { return stopped_; }
    bool goes_on() noexcept override {
      return !stopped_ && (background_ == nullptr || !background_->pending() || background_->goes_on());
    }

   private:
    base::Interrupt* const background_;
    std::atomic<bool> stopped_{false};
  };
  Pass pass_;
  std::thread thread_;
  std::mutex mutex_;
  std::condition_variable done_changed_;
  bool done_ = false;
  std::exception_ptr error_;
  Counts counts_;
  bool reported_ = false;
  std::string cache_problem_;
};

}  // namespace trl::data
