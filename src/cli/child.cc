#include "cli/child.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <stdexcept>
#include <string_view>
#include <system_error>

extern "C" char** environ;

namespace trl::cli {

namespace {

constexpr int kEnding = 3000;  // milliseconds
constexpr size_t kLongestAnswer = size_t{64} << 20;

void check_number(int error, const char* what) {
  if (error != 0) throw std::system_error(error, std::generic_category(), what);
}

std::array<int, 2> open_pipe() {
  std::array<int, 2> ends{};
  check_number(pipe2(ends.data(), O_CLOEXEC) == 0 ? 0 : errno, "pipe");
  return ends;
}

// Writes as much of a text as is taken now, and removes it. false: nobody reads any more.
bool write_some(int to, std::string_view& text) {
  const ssize_t written = write(to, text.data(), text.size());
  if (written < 0) return errno == EAGAIN || errno == EINTR;
  text.remove_prefix(static_cast<size_t>(written));
  return true;
}

// Appends what can be read. false: its end.
bool read_some(int from, std::string& text) {
  std::array<char, 65536> bytes;
  const ssize_t count = read(from, bytes.data(), bytes.size());
  if (count < 0) return errno == EINTR;
  text.append(bytes.data(), static_cast<size_t>(count));
  return count > 0;
}

}  // namespace

Child::Child(const std::string& line) {
  const std::array<int, 2> in = open_pipe(), out = open_pipe();
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_adddup2(&files, in[0], STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&files, out[1], STDOUT_FILENO);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGPIPE);  // this command ignores it
  posix_spawnattr_setsigdefault(&attributes, &signals);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGDEF);
  std::string shell = "sh", flag = "-c", command = line;
  const std::array<char*, 4> words = {shell.data(), flag.data(), command.data(), nullptr};
  const int error = posix_spawn(&id_, "/bin/sh", &files, &attributes, words.data(), environ);
  posix_spawn_file_actions_destroy(&files);
  posix_spawnattr_destroy(&attributes);
  close(in[0]);
  close(out[1]);
  to_ = in[1];
  from_ = out[0];
  if (error != 0) {
    close(to_);
    close(from_);
    check_number(error, "/bin/sh");
  }
  fcntl(to_, F_SETFL, O_NONBLOCK);
}

Child::~Child() {
  close(to_);
  close(from_);
  if (!wait(kEnding)) stop();
  waitpid(id_, nullptr, 0);
}

void Child::stop() const { kill(-id_, SIGKILL); }

// Leaves its exit status, so that its number stays its own.
bool Child::wait(int milliseconds) const {
  for (int waited = 0; waited < milliseconds; waited += 10) {
    siginfo_t info{};
    if (waitid(P_PID, static_cast<id_t>(id_), &info, WEXITED | WNOWAIT | WNOHANG) == 0 && info.si_pid != 0)
      return true;
    usleep(10000);
  }
  return false;
}

std::string Child::how_it_ended() const {
  if (!wait(kEnding)) return "it closed its output";
  siginfo_t info{};
  waitid(P_PID, static_cast<id_t>(id_), &info, WEXITED | WNOWAIT);
  if (info.si_code == CLD_EXITED) return fmt::format("it ended with exit code {}", info.si_status);
  return fmt::format("signal {} ended it", info.si_status);
}

// An answer that comes before its question, or behind another answer, would be that of the next question.
void Child::refuse_more() {
  pollfd end = {from_, POLLIN, 0};
  if (poll(&end, 1, 0) > 0 && (end.revents & POLLIN) != 0) read_some(from_, read_);
  if (!read_.empty())
    throw std::runtime_error(
        fmt::format("it wrote a line before it was asked, or a second one for a request: {}",
                    std::string_view(read_).substr(0, std::min<size_t>(read_.find('\n'), 60))));
}

std::string Child::ask(std::string request) {
  refuse_more();
  request += '\n';
  std::string_view left = request;
  size_t searched = 0, end = 0;
  while ((end = read_.find('\n', searched)) == read_.npos) {
    searched = read_.size();
    if (searched > kLongestAnswer)
      throw std::runtime_error(fmt::format(
          "it wrote {} bytes without the end of a line: give one line for each request", searched));
    std::array<pollfd, 2> ends = {pollfd{from_, POLLIN, 0}, pollfd{to_, POLLOUT, 0}};
    if (poll(ends.data(), left.empty() ? 1 : 2, -1) < 0 && errno != EINTR) check_number(errno, "poll");
    if (ends[1].revents != 0 && !write_some(to_, left)) left = {};
    if (ends[0].revents != 0 && !read_some(from_, read_))
      throw std::runtime_error(how_it_ended() + " before it answered");
  }
  const std::string answer = read_.substr(0, end);
  read_.erase(0, end + 1);
  refuse_more();
  return answer;
}

}  // namespace trl::cli
