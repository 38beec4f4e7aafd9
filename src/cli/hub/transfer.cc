#include "cli/hub/transfer.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <span>
#include <utility>
#include <vector>

#include "cli/hub/environment.h"

namespace trl::cli::hub {

namespace {

std::string hex_of(std::span<const uint8_t> bytes) {
  std::string text;
  for (const uint8_t byte : bytes) text += fmt::format("{:02x}", byte);
  return text;
}

constexpr int kMostMoves = 10;

// Maps W/"abc" to abc.
std::string plain_etag(std::string etag) {
  if (etag.starts_with("W/")) etag.erase(0, 2);
  std::erase(etag, '"');
  return etag;
}

}  // namespace

bool BlobLock::try_take() {
  if (file_ < 0) file_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0664);
  if (file_ < 0)
    throw HubError(
        fmt::format("the Hugging Face cache cannot be written: {}: {}", path_, std::strerror(errno)));
  while (::flock(file_, LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) return false;
    if (errno == ENOLCK || errno == ENOTSUP)
      return true;  // the file system has no locks; renames are still atomic
    if (errno != EINTR)
      throw HubError(fmt::format("{}: it cannot be locked: {}", path_, std::strerror(errno)));
  }
  return true;
}

void BlobLock::release() {
  if (file_ >= 0) ::close(file_);
  file_ = -1;
}

PartialFile::PartialFile(std::string blob, std::string checksum, int64_t size)
    : blob_(std::move(blob)), path_(blob_ + ".incomplete"), size_(size), digest_(std::move(checksum), size) {}

PartialFile::~PartialFile() { close(); }

void PartialFile::close() {
  if (file_ >= 0) ::close(file_);
  file_ = -1;
}

void PartialFile::fail(const char* what) const {
  const int error = errno;
  throw HubError(fmt::format("{}: {}: {}", path_, what, std::strerror(error)));
}

void PartialFile::open() {
  file_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666);
  if (file_ < 0) fail("cannot be opened");
  std::vector<char> buffer(size_t{1} << 20);
  for (;;) {
    const ssize_t count = ::read(file_, buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail("cannot be read");
    if (count == 0) break;
    written_ += count;
    digest_.update({buffer.data(), static_cast<size_t>(count)});
  }
  if (written_ > size_) restart();
}

void PartialFile::write(std::string_view bytes) {
  if (written_ + static_cast<int64_t>(bytes.size()) > size_)
    throw HubError(fmt::format("{}: more than the {} bytes that the hub told of came", path_, size_));
  for (std::string_view rest = bytes; !rest.empty();) {
    const ssize_t count = ::write(file_, rest.data(), rest.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail("cannot be written");
    rest.remove_prefix(static_cast<size_t>(count));
  }
  digest_.update(bytes);
  written_ += static_cast<int64_t>(bytes.size());
}

void PartialFile::restart() {
  digest_.hex();
  written_ = 0;
  if (::ftruncate(file_, 0) != 0 || ::lseek(file_, 0, SEEK_SET) != 0) fail("cannot be written");
}

bool PartialFile::check() {
  found_ = digest_.hex();
  return found_ == digest_.expected();
}

void PartialFile::keep() {
  close();
  if (std::rename(path_.c_str(), blob_.c_str()) != 0) fail("cannot be renamed");  // replaces a link there
}

void PartialFile::discard() {
  close();
  ::unlink(path_.c_str());
}

Digest::Digest(std::string expected, int64_t size) : expected_(std::move(expected)), size_(size) { begin(); }

void Digest::begin() {
  SHA256Init(&sha256_);
  SHA1Init(&sha1_);
  if (is_sha256()) return;
  const std::string header = fmt::format("blob {}", size_);
  SHA1Update(&sha1_, reinterpret_cast<const uint8_t*>(header.c_str()),
             header.size() + 1);  // with its terminating NUL
}

void Digest::update(std::string_view bytes) {
  const auto* data = reinterpret_cast<const uint8_t*>(bytes.data());
  if (is_sha256())
    SHA256Update(&sha256_, data, bytes.size());
  else
    SHA1Update(&sha1_, data, bytes.size());
}

std::string Digest::hex() {
  uint8_t sum[SHA256_DIGEST_LENGTH];
  const size_t size = is_sha256() ? SHA256_DIGEST_LENGTH : SHA1_DIGEST_LENGTH;
  if (is_sha256())
    SHA256Final(sum, &sha256_);
  else
    SHA1Final(sum, &sha1_);
  begin();
  return hex_of({sum, size});
}

Transfer::Transfer(const Job& job, const HubFile& file)
    : job_(job),
      file_(file),
      lock_(job.cache.lock(file.checksum())),
      partial_(job.cache.blob(file.checksum()), file.checksum(), file.size) {}

void Transfer::fail(const std::string& why) const {
  throw HubError(fmt::format("{}: {}: {}", job_.repo.id, file_.path, why));
}

// Returns false if another process has the lock. The blob may exist already: from another revision, or just
// made.
bool Transfer::begin() {
  if (!lock_.try_take()) return false;
  begun_ = true;
  std::error_code error;
  const std::string blob = job_.cache.blob(file_.checksum());
  if (std::filesystem::file_size(blob, error) == static_cast<uintmax_t>(file_.size) && !error) {
    job_.meter.had(file_.size);
    finish();
    return true;
  }
  partial_.open();
  job_.meter.had(partial_.written());
  url_ = fmt::format("{}/{}/resolve/{}/{}", job_.settings.endpoint, job_.repo.path(), job_.commit,
                     quoted(file_.path, true));
  if (partial_.is_whole() && file_.size > 0) complete();
  return true;
}

Request* Transfer::next() {
  if (Clock::now() < not_before_ || (!begun_ && !begin()) || done_) return nullptr;
  const auto method = heard_ ? Request::Method::get : Request::Method::head;
  from_ = heard_ ? partial_.written() : 0;
  request_ = std::make_unique<Request>(
      job_.settings, method, url_, from_,
      [this](const Reply& reply, std::string_view bytes) { return take(reply, bytes); });
  return request_.get();
}

bool Transfer::take(const Reply& reply, std::string_view bytes) try {
  if (partial_.written() == from_ && from_ > 0) {  // the first bytes: do they begin where we stopped?
    const std::string begin = fmt::format("bytes {}-", from_);
    if (reply.status != 206 || !reply.header("content-range").starts_with(begin)) {
      if (reply.status == 206) throw HubError("other bytes came than were asked for");
      restart();
      from_ = 0;
    }
  }
  partial_.write(bytes);
  job_.meter.came(static_cast<int64_t>(bytes.size()));
  retries_.progress();
  return true;
} catch (const HubError& error) {  // libcurl is C: nothing is thrown through it
  write_failure_ = error.what();
  return false;
}

void Transfer::restart() {
  job_.meter.lost(partial_.written());
  partial_.restart();
}

void Transfer::ended(CURLcode code) {
  const Reply reply = request_->reply();
  if (!write_failure_.empty()) fail(write_failure_);
  if (code != CURLE_OK) {
    const std::string why = request_->why(code);
    if (!is_passing(code)) fail(why);
    return again({}, why);
  }
  if (reply.is_redirect() && ++redirects_ > kMostMoves) fail("its address leads in circles");
  if (reply.status >= 400 && !(heard_ && reply.status == 416)) {
    // An address elsewhere is signed and expires soon: ask the hub for another one.
    const bool elsewhere = origin_of(url_) != origin_of(job_.settings.endpoint);
    if (!is_passing(reply.status) && !elsewhere) refuse(job_.settings, job_.repo, file_.path, reply);
    return again(reply, fmt::format("{} answers {}", origin_of(url_), reply.status));
  }
  heard_ ? received(reply) : heard(reply);
}

// Reads the hub's description of the file from the reply that is not followed.
void Transfer::heard(const Reply& reply) {
  const std::string commit = reply.header("x-repo-commit");
  if (!commit.empty() && commit != job_.commit)
    fail(fmt::format("the hub answers for the commit {} in place of {}", commit, job_.commit));
  commit_seen_ = commit_seen_ || !commit.empty();
  const std::string linked = reply.header("x-linked-etag"), size = reply.header("x-linked-size");
  const std::string target = reply.is_redirect() ? request_->location() : "";
  const bool inside = !target.empty() && origin_of(target) == origin_of(job_.settings.endpoint);
  if (inside && linked.empty()) {  // the repository or its file has another address on the hub
    url_ = target;
    return;
  }
  if (!commit_seen_)
    fail(fmt::format(
        "{} does not say of which commit the file is: it does not speak the hub's protocol (see HF_ENDPOINT)",
        job_.settings.endpoint));
  const std::string etag = plain_etag(linked.empty() ? reply.header("etag") : linked);
  if ((is_hex(etag, 40) || is_hex(etag, 64)) && etag != file_.checksum())
    fail(fmt::format("the hub gives the checksum {} for it, and its list of files {}", etag,
                     file_.checksum()));
  const std::string told = size.empty() && !reply.is_redirect() ? reply.header("content-length") : size;
  if (!told.empty() && told != std::to_string(file_.size))
    fail(fmt::format("the hub says that it has {} bytes, and its list of files {}", told, file_.size));
  if (!target.empty()) url_ = target;
  heard_ = true;
  redirects_ = 0;
}

void Transfer::received(const Reply& reply) {
  if (reply.is_redirect()) {
    url_ = request_->location();
    return;
  }
  if (reply.status == 416) {  // the kept part is not a part of it
    restart();
    return again(reply, "it does not give bytes from the middle on");
  }
  if (!partial_.is_whole())
    return again({}, fmt::format("{} of {} bytes came", partial_.written(), file_.size));
  complete();
}

// Tries again from the last byte. The hub is asked anew, since addresses of bytes expire soon.
void Transfer::again(const Reply& reply, const std::string& why) {
  const double seconds = retries_.next(reply);
  if (seconds < 0 && reply.status != 0 && !heard_) refuse(job_.settings, job_.repo, file_.path, reply);
  if (seconds < 0)
    fail(fmt::format("{}; gave up after {} tries. The same command resumes where it stopped", why,
                     Retries::kMost));
  job_.meter.pause();
  if (reply.status == 429)
    spdlog::warn("{}: {}: the hub asks to wait {:.0f} s (429)", job_.repo.id, file_.path, seconds);
  else
    spdlog::warn("{}: {}: {}; trying again", job_.repo.id, file_.path, why);
  not_before_ =
      Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  begun_ = true;
  heard_ = false;
  redirects_ = 0;
  url_ = fmt::format("{}/{}/resolve/{}/{}", job_.settings.endpoint, job_.repo.path(), job_.commit,
                     quoted(file_.path, true));
}

void Transfer::complete() {
  if (partial_.check()) {
    partial_.keep();
    return finish();
  }
  const char* const kind = is_hex(file_.checksum(), 64) ? "SHA-256" : "git blob SHA-1";
  const std::string wrong =
      fmt::format("its {} is {}, and the hub says {}", kind, partial_.found(), file_.checksum());
  if (was_wrong_) {
    partial_.discard();
    fail(wrong + ": twice, so nothing of it was kept");
  }
  was_wrong_ = true;
  restart();
  again({}, wrong);
}

void Transfer::finish() {
  job_.cache.link(job_.commit, file_.path, file_.checksum());
  lock_.release();
  job_.meter.file_done();
  job_.meter.draw();
  done_ = true;
}

}  // namespace trl::cli::hub
