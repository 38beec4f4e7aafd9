// The pass over all rows that makes prepared rows of them, on a thread of its own where that is worth it, and
// reading those rows while it runs.
#pragma once
#include <atomic>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>

#include "base/interrupt.h"
#include "data/record_store.h"
#include "data/row_cache.h"
#include "data/sft_tokens.h"

namespace trl::data {

class Preparation final : public Examples {
 public:
  Preparation(std::shared_ptr<const Table> table, const PrepareContext& context);
  ~Preparation() override;  // ends the pass
  int64_t size() override;
  Example read(int64_t row) override;
  std::vector<uint32_t> lengths() override;
  int64_t total_tokens() override;
  void tell() override;
  uint64_t fingerprint() const override { return fingerprint_; }
  bool completion_only_loss() const override { return tokens_->completion_only_loss(); }

 private:
  void start();
  void run();  // the pass
  void prepare_rows(std::span<const int64_t> rows, Counts& counts);
  void find_dropped();
  void wait();
  void report();  // what the pass met, once
  bool order_is_known_before() const;
  int64_t source_row(int64_t row) const;  // of a row that the pass has not reached

  const std::shared_ptr<const Table> table_;
  const config::SftDataArguments arguments_;
  const PrepareContext context_;
  const RowCache cache_;
  std::unique_ptr<const SftTokens> tokens_;
  uint64_t fingerprint_ = 0;
  std::vector<uint32_t> shuffled_;  // shuffle_dataset: the prepared row in each place; empty: as they come

  bool lazy_ = false;
  std::vector<int64_t> dropped_;  // lazy: source rows, rising
  std::unique_ptr<RecordStore> store_;
  std::atomic<int64_t> kept_{0};  // rows in the store

  // The pass ends when this goes, or with whatever else interrupts work that outlives a call.
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
