// Handlers of signals that interrupt products: they run on the stack of their thread.
#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <chrono>

#include "kernels/compare.h"
#include "kernels/gemm/gemm.h"

namespace trl::kernels {
namespace {

// Bounds of the stack of the thread that takes the signals.
struct Stack {
  const char *begin, *end;
  Stack() {
    pthread_attr_t attributes;
    void* at = nullptr;
    size_t size = 0;
    pthread_getattr_np(pthread_self(), &attributes);
    pthread_attr_getstack(&attributes, &at, &size);
    pthread_attr_destroy(&attributes);
    begin = static_cast<const char*>(at);
    end = begin + size;
  }
};
const Stack* stack = nullptr;
std::atomic<int> handled{0}, elsewhere{0};

void on_alarm(int) {
  auto* const here = static_cast<const char*>(__builtin_frame_address(0));
  ++handled;
  if (here < stack->begin || here >= stack->end) ++elsewhere;
}

TEST(GemmSignals, HandlersRunOnTheStackOfTheirThread) {
  const Stack own;
  stack = &own;
  struct sigaction action {
  }, before{};
  action.sa_handler = on_alarm;
  action.sa_flags = SA_RESTART;
  sigaction(SIGALRM, &action, &before);
  sigevent to_this_thread{};
  to_this_thread.sigev_notify = SIGEV_THREAD_ID;
  to_this_thread.sigev_signo = SIGALRM;
  to_this_thread._sigev_un._tid = gettid();
  timer_t timer{};
  ASSERT_EQ(timer_create(CLOCK_MONOTONIC, &to_this_thread, &timer), 0);
  const itimerspec often{{0, 200000}, {0, 200000}};
  timer_settime(timer, 0, &often, nullptr);
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(500);
  at::Tensor c = at::empty({117, 64});
  const at::Tensor a = test::random({117, 256}, 1, at::kFloat), b = test::random({64, 256}, 2, at::kFloat);
  while (std::chrono::steady_clock::now() < end) gemm(a, false, b, true, c);
  timer_delete(timer);
  sigaction(SIGALRM, &before, nullptr);
  EXPECT_GT(handled, 10);
  EXPECT_EQ(elsewhere, 0);
}

}  // namespace
}  // namespace trl::kernels
