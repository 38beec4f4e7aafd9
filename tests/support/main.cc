// main() of every test program. TRL_TEST_LOCALE: the locale that the process has, for C and C++, as a host's
// may. TRL_TEST_APART: the tests run in processes that are forked from this one, which has loaded the
// libraries once. The file of that name gets a line for each: passed, failed or skipped, the name, the reason
// and the milliseconds (0 if its process ended), with tabs between. TRL_TEST_TOGETHER: how many tests share a
// process; 1 if unset.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <locale>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

constexpr unsigned longest_test = 1200;  // seconds

// What a forked process tells its parent, in memory that both see.
struct Progress {
  size_t ended;
  size_t failed;
};

void write_result(std::FILE* results, const char* outcome, const std::string& name, std::string reason,
                  long long milliseconds) {
  std::ranges::replace(reason, '\n', ' ');
  std::fprintf(results, "%s\t%s\t%s\t%lld\n", outcome, name.c_str(), reason.c_str(), milliseconds);
  std::fflush(results);
}

std::string full_name(const testing::TestInfo& test) {
  return std::string(test.test_suite_name()) + '.' + test.name();
}

// Names what --gtest_filter and the variables of shards select: gtest marks it before it lists it.
std::vector<std::string> selected_tests() {
  GTEST_FLAG_SET(list_tests, true);
  testing::internal::CaptureStdout();
  const int listed = RUN_ALL_TESTS();
  testing::internal::GetCapturedStdout();
  GTEST_FLAG_SET(list_tests, false);
  std::vector<std::string> names;
  const testing::UnitTest& all = *testing::UnitTest::GetInstance();
  for (int i = 0; listed == 0 && i < all.total_test_suite_count(); ++i) {
    const testing::TestSuite& suite = *all.GetTestSuite(i);
    for (int j = 0; j < suite.total_test_count(); ++j)
      if (suite.GetTestInfo(j)->should_run()) names.push_back(full_name(*suite.GetTestInfo(j)));
  }
  return names;
}

// Writes the results in the forked process, which ends when a test takes too long.
class Results : public testing::EmptyTestEventListener {
 public:
  Results(std::FILE* file, Progress* progress) : file_(file), progress_(progress) {}

  void OnTestStart(const testing::TestInfo&) override { ::alarm(longest_test); }

  void OnTestEnd(const testing::TestInfo& test) override {
    const testing::TestResult& result = *test.result();
    std::string reason;
    for (int i = 0; i < result.total_part_count(); ++i)
      if (result.GetTestPartResult(i).skipped()) reason = result.GetTestPartResult(i).message();
    const char* const outcome = result.Failed() ? "failed" : result.Skipped() ? "skipped" : "passed";
    write_result(file_, outcome, full_name(test), reason, result.elapsed_time());
    progress_->failed += result.Failed() ? 1 : 0;
    ++progress_->ended;
  }

 private:
  std::FILE* file_;
  Progress* progress_;
};

// Runs these tests in the forked process, without the destructors of libtorch's registries, which take 0.1 s.
// Sanitizers tell what they found when a process exits.
[[noreturn]] void run_forked(const std::string& names, pid_t parent, std::FILE* results, Progress* progress) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  int status = 1;
  if (::getppid() == parent) {
    GTEST_FLAG_SET(filter, names);
    testing::UnitTest::GetInstance()->listeners().Append(new Results(results, progress));
    status = RUN_ALL_TESTS();
  }
  std::fflush(nullptr);
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  std::exit(status);
#else
  ::_exit(status);
#endif
}

std::string ending(int status) {
  return WIFSIGNALED(status) ? ::strsignal(WTERMSIG(status))
                             : "status " + std::to_string(WEXITSTATUS(status));
}

// Shows what a process wrote in which a test failed, and empties the file for the next one.
void show_output(std::FILE* output, bool failed) {
  std::rewind(output);
  char text[4096];
  while (failed) {
    const size_t count = std::fread(text, 1, sizeof text, output);
    if (count == 0) break;
    std::fwrite(text, 1, count, stdout);
  }
  std::rewind(output);
  if (::ftruncate(::fileno(output), 0) != 0) std::perror("ftruncate");
}

int run_apart(const char* path) {
  const char* const count = std::getenv("TRL_TEST_TOGETHER");
  const size_t together = count == nullptr ? 1 : std::max(1ul, std::strtoul(count, nullptr, 10));
  const char* const own = std::getenv("TRL_TEST_ALONE");
  const std::string alone = std::string(":") + (own == nullptr ? "" : own) + ':';
  const auto is_alone = [&](const std::string& name) {
    return alone.find(':' + name + ':') != std::string::npos;
  };
  const std::vector<std::string> names = selected_tests();
  for (const char* name : {"GTEST_TOTAL_SHARDS", "GTEST_SHARD_INDEX", "TRL_TEST_APART"}) ::unsetenv(name);
  std::FILE* const results = std::fopen(path, "we");
  std::FILE* const output = std::tmpfile();
  void* const shared =
      ::mmap(nullptr, sizeof(Progress), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (results == nullptr || output == nullptr || shared == MAP_FAILED) {
    std::perror(path);
    return 1;
  }
  auto* const progress = static_cast<Progress*>(shared);
  const pid_t parent = ::getpid();
  size_t failed = 0;
  for (size_t next = 0; next < names.size();) {
    const size_t most = is_alone(names[next]) ? 1 : together;
    std::string filter = names[next];
    size_t end = next + 1;
    for (; end < std::min(names.size(), next + most) && !is_alone(names[end]); ++end)
      filter += ':' + names[end];
    *progress = Progress{};
    std::fflush(stdout);
    const pid_t child = ::fork();
    if (child == 0) {
      ::dup2(::fileno(output), STDOUT_FILENO);
      ::dup2(::fileno(output), STDERR_FILENO);
      run_forked(filter, parent, results, progress);
    }
    int status = 0;
    if (child < 0 || ::waitpid(child, &status, 0) != child) {
      std::perror("fork");
      return 1;
    }
    failed += progress->failed;
    next += progress->ended;
    show_output(output, status != 0);
    if (status == 0 ? next == end : progress->failed > 0 && next == end) continue;
    // The process ended in the midst of a test, or at its own end.
    const std::string& name = names[next < end ? next++ : end - 1];
    std::printf("%s: the process ended: %s\n", name.c_str(), ending(status).c_str());
    write_result(results, "failed", name, ending(status), 0);
    ++failed;
  }
  return failed > 0 ? 1 : 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (const char* name = std::getenv("TRL_TEST_LOCALE")) {
    try {
      std::locale::global(std::locale(name));
    } catch (const std::runtime_error& error) {
      std::fprintf(stderr, "TRL_TEST_LOCALE=%s: %s\n", name, error.what());
      return 1;
    }
  }
  const char* const apart = std::getenv("TRL_TEST_APART");
  if (apart != nullptr) {
    GTEST_FLAG_SET(brief, true);
    std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);
  }
  testing::InitGoogleTest(&argc, argv);
  return apart != nullptr ? run_apart(apart) : RUN_ALL_TESTS();
}
