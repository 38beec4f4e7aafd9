#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <list>
#include <utility>

#include "cli/hub/environment.h"
#include "cli/hub/resolve.h"
#include "cli/hub/transfer.h"
#include "cli/terminal.h"

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

  bool has(const Transfer* one) const { return std::ranges::find(under_way_, one) != under_way_.end(); }
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
      const auto found = std::ranges::find_if(
          under_way_, [&](const Transfer* one) { return one->request()->handle() == message->easy_handle; });
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

std::string size_text(int64_t bytes) {
  const auto value = static_cast<double>(bytes);
  if (value >= 1e9) return fmt::format("{:.2f} GB", value / 1e9);
  if (value >= 1e6) return fmt::format("{:.1f} MB", value / 1e6);
  return fmt::format("{:.1f} kB", value / 1e3);
}

std::string count_text(size_t files) { return fmt::format("{} file{}", files, files == 1 ? "" : "s"); }

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
    for (Transfer& one : transfers)
      if (!crowd.has(&one) && one.next() != nullptr) crowd.add(&one);
    if (done == 0) crowd.work();
    meter.draw();
  }
  meter.finish();
}

Meter::Meter(std::string name, size_t files, int64_t bytes)
    : name_(std::move(name)),
      files_(files),
      bytes_(bytes),
      terminal_(isatty(STDERR_FILENO) != 0 && spdlog::should_log(spdlog::level::info)) {
  if (!terminal_) spdlog::info("{}: downloading {}, {}", name_, count_text(files_), size_text(bytes_));
}

Meter::~Meter() { pause(); }

void Meter::had(int64_t bytes) { had_ += bytes; }

void Meter::came(int64_t bytes) {
  came_ += bytes;
  draw();
}

void Meter::lost(int64_t bytes) { had_ -= bytes; }

void Meter::pause() const {
  if (terminal_) std::fputs("\r\x1b[K", stderr);
}

void Meter::draw(bool now) {
  if (!terminal_ || (!now && Clock::now() - drawn_ < std::chrono::milliseconds(100))) return;
  drawn_ = Clock::now();
  const double seconds = std::chrono::duration<double>(drawn_ - start_).count();
  const double speed = seconds > 0.5 ? static_cast<double>(came_) / seconds : 0;
  const int64_t done = had_ + came_;
  std::string tail =
      fmt::format("  {} of {} files  {} of {}", files_done_, files_, size_text(done), size_text(bytes_));
  if (speed > 0) {
    tail += fmt::format("  {}/s  {} left", size_text(static_cast<int64_t>(speed)),
                        duration(static_cast<double>(std::max<int64_t>(bytes_ - done, 0)) / speed));
  }
  const auto width = static_cast<size_t>(std::max(1, columns(STDERR_FILENO) - 1));
  const size_t room = width > tail.size() ? width - tail.size() : 0;
  std::string line = (name_.size() > room ? name_.substr(name_.size() - room) : name_) + tail;
  line.resize(std::min(line.size(), width));
  std::fprintf(stderr, "\r\x1b[K%s", line.c_str());
}

void Meter::finish() {
  pause();
  const double seconds = std::chrono::duration<double>(Clock::now() - start_).count();
  spdlog::info("{}: downloaded {}, {} in {}", name_, count_text(files_), size_text(came_),
               time_text(seconds));
}

}  // namespace trl::cli::hub
