#include "cli/hub/download.h"

#include <fmt/format.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <filesystem>
#include <list>

#include "cli/hub/hub_error.h"
#include "cli/hub/transfer.h"

namespace trl::cli::hub {

namespace {

constexpr size_t kAtOnce = 8;

// Concurrent requests; they are removed when this object is destroyed.
class Crowd {
 public:
  Crowd() : multi_(curl_multi_init()) {
    if (multi_ == nullptr) throw HubError("libcurl cannot be used: curl_multi_init failed");
  }
  ~Crowd() {
    for (const Transfer* one : under_way_) curl_multi_remove_handle(multi_, one->request()->handle());
    curl_multi_cleanup(multi_);
  }
  Crowd(const Crowd&) = delete;
  Crowd& operator=(const Crowd&) = delete;

  bool has(const Transfer* one) const {
    return std::find(under_way_.begin(), under_way_.end(), one) != under_way_.end();
  }
  void add(Transfer* one) {
    curl_multi_add_handle(multi_, one->request()->handle());
    under_way_.push_back(one);
  }
  void work() {
    int running = 0;
    curl_multi_perform(multi_, &running);
    curl_multi_poll(multi_, nullptr, 0, 100, nullptr);
    curl_multi_perform(multi_, &running);
    int left = 0;
    while (const CURLMsg* message = curl_multi_info_read(multi_, &left)) {
      if (message->msg != CURLMSG_DONE) continue;
      const CURLcode code = message->data.result;
      const auto found = std::find_if(under_way_.begin(), under_way_.end(), [&](const Transfer* one) {
        return one->request()->handle() == message->easy_handle;
      });
      Transfer* const one = *found;
      curl_multi_remove_handle(multi_, message->easy_handle);
      under_way_.erase(found);
      one->ended(code);
    }
  }

 private:
  CURLM* multi_;
  std::list<Transfer*> under_way_;
};

void check_room(const std::string& cache, const Repo& repo, int64_t bytes) {
  struct statvfs room {};
  if (statvfs(cache.c_str(), &room) != 0) return;
  const auto free = static_cast<int64_t>(room.f_bavail) * static_cast<int64_t>(room.f_frsize);
  if (bytes > free)
    throw HubError(fmt::format(
        "{}: {:.2f} GB are to be downloaded, and {} has {:.2f} GB free; HF_HUB_CACHE names another directory",
        repo.id, static_cast<double>(bytes) / 1e9, cache, static_cast<double>(free) / 1e9));
}

}  // namespace

void download(const Settings& settings, const Repo& repo, const std::string& commit, const Listing& files) {
  const Cache cache(settings.cache, repo);
  Listing missing;
  int64_t bytes = 0, to_come = 0;
  for (const HubFile& file : files) {
    if (cache.has(commit, file.path)) continue;
    missing.push_back(file);
    bytes += file.size;
    std::error_code error;
    const std::string blob = cache.blob(file.checksum());
    const auto partly = std::filesystem::file_size(blob + ".incomplete", error);
    if (!std::filesystem::exists(blob)) to_come += file.size - (error ? 0 : static_cast<int64_t>(partly));
  }
  if (missing.empty()) return;
  cache.begin();
  check_room(settings.cache, repo, to_come);

  Meter meter(repo.id, missing.size(), bytes);
  const Transfer::Job job{settings, repo, cache, commit, meter};
  std::list<Transfer> transfers;
  Crowd crowd;
  for (auto next = missing.begin();;) {
    const size_t done = transfers.remove_if([](const Transfer& one) { return one.done(); });
    while (next != missing.end() && transfers.size() < kAtOnce) transfers.emplace_back(job, *next++);
    if (transfers.empty()) break;
    for (Transfer& one : transfers) {
      if (!crowd.has(&one) && one.next() != nullptr) crowd.add(&one);
    }
    if (done == 0) crowd.work();
    meter.draw();
  }
  meter.finish();
}

}  // namespace trl::cli::hub
