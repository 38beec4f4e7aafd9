// Downloading a file into the cache: its checksum, the file while it is written, progress, and the steps.
#pragma once
#include <sys/types.h>

#include <sha1.h>
#include <sha2.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "cli/hub/request.h"
#include "cli/hub/resolve.h"

namespace trl::cli::hub {

// Computes SHA-256 for a file in Git LFS, or SHA-1 of the git blob, over bytes as they arrive.
class Digest {
 public:
  // expected: 64 hexadecimal digits mean SHA-256, 40 mean git's SHA-1, which hashes the size first.
  Digest(std::string expected, int64_t size);
  void update(std::string_view bytes);
  std::string hex();  // for all bytes so far; the digest is then empty again
  bool is_sha256() const { return expected_.size() == 64; }
  const std::string& expected() const { return expected_; }

 private:
  void begin();
  std::string expected_;
  int64_t size_;
  SHA2_CTX sha256_;
  SHA1_CTX sha1_;
};

// The lock of a blob. Held with flock, as huggingface_hub holds it; released when the object is destroyed.
class BlobLock {
 public:
  explicit BlobLock(std::string path) : path_(std::move(path)) {}
  ~BlobLock() { release(); }
  BlobLock(const BlobLock&) = delete;
  BlobLock& operator=(const BlobLock&) = delete;
  bool try_take();  // false: another process, or another file of this one, holds it
  void release();

 private:
  std::string path_;
  int file_ = -1;
};

// A blob of the cache that is being written: <checksum>.incomplete, under its lock.
class PartialFile {
 public:
  PartialFile(std::string blob, std::string checksum, int64_t size);
  ~PartialFile();
  PartialFile(const PartialFile&) = delete;
  PartialFile& operator=(const PartialFile&) = delete;

  void open();  // keeps an earlier download's bytes; throws HubError
  int64_t written() const { return written_; }
  bool is_whole() const { return written_ == size_; }
  void write(std::string_view bytes);  // throws HubError: no room, or more bytes than the file has
  void restart();                      // from the first byte
  // Returns whether the checksum is the expected one; found() is the actual one.
  bool check();
  const std::string& found() const { return found_; }
  void keep();     // renames it to the blob
  void discard();  // removes all of it

 private:
  void close();
  [[noreturn]] void fail(const char* what) const;
  std::string blob_, path_, found_;
  int64_t size_, written_ = 0;
  Digest digest_;
  int file_ = -1;
};

// Shows the progress of a download on stderr: a line that redraws itself on a terminal; elsewhere one line at
// its beginning and one at its end.
class Meter {
 public:
  Meter(std::string name, size_t files, int64_t bytes);
  ~Meter();
  Meter(const Meter&) = delete;
  Meter& operator=(const Meter&) = delete;

  void had(int64_t bytes);  // bytes of an earlier download, which this one resumes
  void came(int64_t bytes);
  void lost(int64_t bytes);  // discards bytes, which must be received again
  void file_done() { ++files_done_; }
  void draw(bool now = false);
  void pause() const;  // makes room for another line
  void finish();       // everything is received

 private:
  using Clock = std::chrono::steady_clock;
  std::string name_;
  size_t files_, files_done_ = 0;
  int64_t bytes_, had_ = 0, came_ = 0;
  bool terminal_;
  Clock::time_point start_ = Clock::now(), drawn_{};
};

// Downloads one file into the cache, step by step: its lock, the hub's reply about it, its bytes from the end
// of an earlier download, its checksum, its link.
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
