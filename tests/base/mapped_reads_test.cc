// Mapped files that are cut while they are read: no signal ends the process, the host's handler keeps what is
// its own, and is there again afterwards. Each case has a process of its own.
#include "base/files/mapped_reads.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <setjmp.h>
#include <sys/mman.h>
#include <unistd.h>

#include <filesystem>
#include <numeric>
#include <thread>

#include "base/error.h"
#include "base/files/files.h"
#include "base/threads/thread_pool.h"
#include "support/scratch.h"

namespace trl::base {
namespace {

constexpr size_t kBytes = 64 << 10;

struct Cut {
  Cut() : path(directory / "weights") {
    write_file(path, std::string(kBytes, '\1'));
    file = std::make_unique<MappedFile>(path);
  }
  void cut(size_t bytes = 8192 + 10) const { std::filesystem::resize_file(path, bytes); }
  int64_t sum() const {
    const std::string_view bytes = file->bytes();
    return std::accumulate(bytes.begin(), bytes.end(), int64_t{0});
  }
  const test::Scratch directory;
  const std::string path;
  std::unique_ptr<MappedFile> file;
};

// A sanitizer has handlers of its own.
void no_handler() {
  struct sigaction plain {};
  plain.sa_handler = SIG_DFL;
  ::sigaction(SIGBUS, &plain, nullptr);
}

// 0 if the body finds all as it should be, else the number of what is not.
template <typename Body>
void in_child(const Body& body) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        no_handler();
        _exit(body());
      },
      testing::ExitedWithCode(0), "");
}

bool refuses(const Cut& c) {
  try {
    c.file->check();
  } catch (const Error& error) {
    return error.status() == Status::io && error.message().starts_with(c.path + ": ");
  }
  return false;
}

TEST(MappedReads, WithoutOneTheProcessEnds) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        no_handler();
        const Cut c;
        c.cut();
        _exit(c.sum() > 0 ? 1 : 2);
      },
      testing::KilledBySignal(SIGBUS), "");
}

TEST(MappedReads, ReadZerosAndTheFileIsRefused) {
  in_child([] {
    const Cut c;
    const MappedReads reading;
    c.file->check();
    if (c.sum() != kBytes) return 1;
    c.cut();
    if (c.sum() != 8192 + 10) return 2;
    if (!refuses(c)) return 3;
    std::filesystem::resize_file(c.path, kBytes);  // its bytes are others now
    return refuses(c) ? 0 : 4;
  });
}

// Also on threads of the library and those of a host that blocks every signal.
TEST(MappedReads, OnEveryThread) {
  in_child([] {
    const Cut c;
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, nullptr);
    {
      const MappedReads reading;
      c.cut();
      int64_t sum = 0;
      quiet_thread("trl-test", [&] { sum = c.sum(); }).join();
      if (sum != 8192 + 10 || c.sum() != sum) return 1;
    }
    sigset_t now;
    pthread_sigmask(SIG_SETMASK, nullptr, &now);
    return sigismember(&now, SIGBUS) == 1 && sigismember(&now, SIGUSR1) == 1 ? 0 : 2;
  });
}

sigjmp_buf jump;
volatile int jumps = 0;
void of_the_host(int, siginfo_t*, void*) {
  jumps = jumps + 1;
  siglongjmp(jump, 1);
}
struct sigaction current() {
  struct sigaction now {};
  ::sigaction(SIGBUS, nullptr, &now);
  return now;
}

TEST(MappedReads, TheHostsHandlerGetsItsOwnFaultsAndStays) {
  in_child([] {
    const Cut c;
    struct sigaction host {};
    host.sa_sigaction = of_the_host;
    host.sa_flags = SA_SIGINFO;
    ::sigaction(SIGBUS, &host, nullptr);
    const int flags = current().sa_flags;
    const Cut other;  // stands for a file that the host maps
    void* const mapped =
        ::mmap(nullptr, kBytes, PROT_READ, MAP_PRIVATE, ::fileno(std::fopen(other.path.c_str(), "r")), 0);
    other.cut(10);
    {
      const MappedReads reading, again;
      c.cut();
      if (c.sum() != 8192 + 10 || jumps != 0) return 1;
      if (sigsetjmp(jump, 1) == 0) {
        static_cast<void>(static_cast<volatile const char*>(mapped)[kBytes - 1]);
        return 2;
      }
      if (jumps != 1) return 3;
      if (sigsetjmp(jump, 1) == 0) {
        ::raise(SIGBUS);
        return 4;
      }
      if (jumps != 2) return 5;
    }
    return current().sa_sigaction == of_the_host && current().sa_flags == flags ? 0 : 6;
  });
}

TEST(MappedReads, AHandlerThatComesMeanwhileStays) {
  in_child([] {
    const Cut c;
    struct sigaction host {};
    host.sa_handler = SIG_IGN;
    {
      const MappedReads reading;
      ::sigaction(SIGBUS, &host, nullptr);
    }
    if (current().sa_handler != SIG_IGN) return 1;
    { const MappedReads reading; }
    return current().sa_handler == SIG_IGN ? 0 : 2;
  });
}

TEST(MappedReads, WithoutAFileThereIsNoHandler) {
  in_child([] {
    const MappedReads reading;
    if (current().sa_handler != SIG_DFL) return 1;
    {
      const Cut c;
      if (current().sa_handler == SIG_DFL) return 2;
    }
    return current().sa_handler == SIG_DFL ? 0 : 3;
  });
}

TEST(MappedReads, WhatIsNoFileOfOursEndsTheProcessAsEver) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        no_handler();
        const Cut c;
        const MappedReads reading;
        ::raise(SIGBUS);
        _exit(0);
      },
      testing::KilledBySignal(SIGBUS), "");
}

}  // namespace
}  // namespace trl::base
