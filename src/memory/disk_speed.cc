#include "memory/disk_speed.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <mutex>
#include <vector>

#include "base/files/files.h"
#include "memory/unnamed_file.h"
#include "tensor/process_state.h"

namespace trl::memory {

namespace {

using Clock = std::chrono::steady_clock;

constexpr int64_t kPiece = int64_t{4} << 20, kPieces = 16;
constexpr double kSeconds = 0.17;  // for writing, and for reading

// Calls body(offset) for one piece after the other while there is time; returns bytes per second, including
// the time of end().
template <typename Body, typename End>
double bytes_per_second(int64_t pieces, int64_t& done, const Body& body, const End& end) {
  const auto begin = Clock::now();
  const auto seconds = [&] { return std::chrono::duration<double>(Clock::now() - begin).count(); };
  for (done = 0; done < pieces && (done == 0 || seconds() < kSeconds); ++done) body(done * kPiece);
  end();
  return static_cast<double>(done * kPiece) / std::max(seconds(), 1e-6);
}

DiskSpeed measure(const std::string& directory) {
  const UnnamedFile file(directory);
  std::vector<char> piece(static_cast<size_t>(kPiece));
  for (size_t i = 0; i < piece.size(); ++i) piece[i] = static_cast<char>(i * 2654435761U >> 13);
  const auto check = [&](ssize_t got, const char* what) {
    if (got < 0) base::fail_errno(file.directory(), what);
  };
  int64_t written = 0, read = 0;
  DiskSpeed speed;
  speed.write = bytes_per_second(
      kPieces, written,
      [&](int64_t offset) {
        check(::pwrite(file.descriptor(), piece.data(), piece.size(), offset), "it cannot be written");
      },
      [&] { ::fdatasync(file.descriptor()); });
  ::posix_fadvise(file.descriptor(), 0, 0, POSIX_FADV_DONTNEED);
  speed.read = bytes_per_second(
      written, read,
      [&](int64_t offset) {
        check(::pread(file.descriptor(), piece.data(), piece.size(), offset), "it cannot be read");
      },
      [] {});
  return speed;
}

struct Known {
  std::mutex mutex;
  std::map<std::string, DiskSpeed> speeds;
};

}  // namespace

DiskSpeed disk_speed(const std::string& directory) {
  auto& known = tensor::process_state<Known>();
  const std::lock_guard lock(known.mutex);
  const auto found = known.speeds.find(directory);
  return found != known.speeds.end() ? found->second : known.speeds[directory] = measure(directory);
}

}  // namespace trl::memory
