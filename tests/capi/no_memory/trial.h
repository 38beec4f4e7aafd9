// A call of the library of which one allocation is refused, and all such calls one after the other; for one
// file of a test program. TRL_TEST_ALLOCATIONS=all: long calls too have each allocation refused; by default,
// of those beyond the 200th, every hundredth part.
#pragma once
#include <sys/wait.h>
#include <unistd.h>
#include <cstdio>
#include <cstdlib>
#include <functional>

#include "host.h"
#include "support/no_memory.h"

namespace host {

using trl::test::live_allocations;
using trl::test::NoMemoryAt;

// One call of the library, of which the nth allocation gets no memory; 0: all do.
class Trial {
 public:
  explicit Trial(int64_t nth) : nth_(nth) {}
  ~Trial() { trl_error_destroy(error_); }
  Trial(const Trial&) = delete;
  Trial& operator=(const Trial&) = delete;

  // body(trl_error**) is the call alone: what the test allocates within would count.
  template <class Body>
  void call(Body body) {
    const NoMemoryAt refusing(nth_);
    status_ = body(&error_);
    refused_ = NoMemoryAt::refused;
  }
  // The same for a function that has no error; body returns whether it gave what it should.
  template <class Body>
  void ask(Body body) {
    bool given = false;
    {
      const NoMemoryAt refusing(nth_);
      given = body();
      refused_ = NoMemoryAt::refused;
    }
    has_error_ = false;
    status_ = given ? TRL_OK : TRL_E_OUT_OF_MEMORY;
  }

  bool failed() const { return status_ < 0; }
  bool refused() const { return refused_; }
  trl_status status() const { return status_; }
  // What the call gave, of whatever type; NULL or 0 after a failure.
  template <class T>
  void out(T given, const std::string& text = "") {
    if (failed()) {
      EXPECT_EQ(given, T{}) << "is handed out after " << trl_status_name(status_);
    } else {
      result += text;
    }
  }
  void text(const char* given) { out(given, given != nullptr ? given : ""); }
  void check_error() {
    if (!has_error_) return;
    EXPECT_EQ(error_ != nullptr, failed());
    EXPECT_EQ(trl_error_code(error_), failed() ? status_ : TRL_OK);
    if (failed()) {
      EXPECT_STRNE(trl_error_message(error_), "");
    }
    if (failed()) result += trl_error_message(error_);
  }

  std::string result;

 private:
  const int64_t nth_;
  trl_error* error_ = nullptr;
  trl_status status_ = TRL_OK;
  bool refused_ = false, has_error_ = true;
};

struct Case {
  const char* name;
  std::function<void(Trial&)> run;
};

inline int64_t after(int64_t nth) {
  static const bool all = std::getenv("TRL_TEST_ALLOCATIONS") != nullptr;
  return nth + 1 + (all || nth < 200 ? 0 : nth / 100);
}

inline void refuse_each(const Case& one) {
  SCOPED_TRACE(one.name);
  Trial wanted(0);
  one.run(wanted);
  wanted.check_error();
  {
    Trial again(0);  // what is kept from one call to the next is there now
    one.run(again);
  }
  int64_t nth = 1;
  for (bool more = true; more && !testing::Test::HasFailure(); nth = after(nth)) {
    SCOPED_TRACE("allocation " + std::to_string(nth));
    const int64_t before = live_allocations;
    int64_t left = 0;
    {
      Trial trial(nth);
      one.run(trial);
      trial.check_error();
      more = trial.refused();
      const bool as_wanted = trial.status() == wanted.status();
      if (!more || as_wanted) {
        EXPECT_EQ(trial.result, wanted.result);
      }
      if (!as_wanted) {
        // A function of the test that is called meanwhile may throw, too.
        const bool told = trial.status() == TRL_E_OUT_OF_MEMORY || trial.status() == TRL_E_CALLBACK;
        EXPECT_TRUE(more && told) << trial.status() << ": " << trial.result;
      }
    }
    left = live_allocations - before;
    if (more) {
      EXPECT_EQ(left, 0) << "allocations are lost";
    }
    Trial later(0);
    one.run(later);
    later.check_error();
    EXPECT_EQ(later.status(), wanted.status());
    EXPECT_EQ(later.result, wanted.result);
  }
  std::printf("%s: %lld allocations\n", one.name, static_cast<long long>(nth - 1));
}

// In a process that has not used the library: the call makes what the first one makes.
inline int in_new_process(const Case& one, int64_t nth) {
  const pid_t child = (std::fflush(nullptr), ::fork());
  if (child == 0) {
    bool refused = false;
    {
      Trial trial(nth);
      one.run(trial);
      trial.check_error();
      refused = trial.refused();
      EXPECT_TRUE(!trial.failed() || refused || trial.status() != TRL_E_OUT_OF_MEMORY);
    }
    Trial later(0);
    one.run(later);
    EXPECT_NE(later.status(), TRL_E_OUT_OF_MEMORY) << later.result;
    std::fflush(nullptr);
    ::_exit(testing::Test::HasFailure() ? 1 : refused ? 2 : 0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

}  // namespace host
