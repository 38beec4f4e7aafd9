// Downloads one file into the cache, step by step: its lock, the hub's reply about it, its bytes from the end
// of an earlier download, its checksum, its link.
#pragma once
#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "cli/hub/cache.h"
#include "cli/hub/meter.h"
#include "cli/hub/partial_file.h"
#include "cli/hub/request.h"
#include "cli/hub/retries.h"

namespace trl::cli::hub {

class Transfer {
 public:
  struct Job {
    const Settings& settings;
    const Repo& repo;
    const Cache& cache;
    std::string commit;
    Meter& meter;
  };
  Transfer(const Job& job, const HubFile& file);

  // Returns the request to make now. Null: another process writes the file, or the hub asked to wait; ask
  // again soon.
  Request* next();
  // Handles the end of the request. Throws HubError for all errors that another try may not fix.
  void ended(CURLcode code);
  bool done() const { return done_; }
  Request* request() const { return request_.get(); }

 private:
  using Clock = std::chrono::steady_clock;
  bool begin();
  bool take(const Reply& reply, std::string_view bytes);
  void heard(const Reply& reply);
  void received(const Reply& reply);
  void again(const Reply& reply, const std::string& why);
  void restart();
  void complete();
  void finish();
  [[noreturn]] void fail(const std::string& why) const;

  const Job& job_;
  const HubFile& file_;
  BlobLock lock_;
  PartialFile partial_;
  Retries retries_;
  std::unique_ptr<Request> request_;
  std::string url_;  // URL of the file, then of its bytes
  bool begun_ = false, heard_ = false, done_ = false, was_wrong_ = false;
  bool commit_seen_ = false;
  int redirects_ = 0;
  int64_t from_ = 0;           // the first byte of the current request
  std::string write_failure_;  // the error that stopped it on this side
  Clock::time_point not_before_{};
};

}  // namespace trl::cli::hub
