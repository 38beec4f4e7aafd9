/* A thread enters a call and is held at one of its first instructions; meanwhile the main thread ends the
 * process, and then the thread goes on. Wherever it was held, its call ends with TRL_E_CANCELLED, or it is
 * blocked, before the process goes on to its exit handlers. Each instruction is a process of its own, and the
 * thread steps to it under the processor's trap flag. A thread that is held for longer than the process waits
 * for calls to end is waited for, too: it has time to reach a place where it blocks.
 * usage: stepped_exit FIRST_INSTRUCTION LAST HOLD_MS */
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <trl.h>
#include <unistd.h>

#ifdef __x86_64__
#include <pthread.h>
#include <ucontext.h>

enum { ROWS = 1000000, TRAP_FLAG = 0x100 };
static char* rows; /* which take a second to count */
static long stop_at, steps, hold_ms;
static atomic_int held, ends, goes_on, returned;
static atomic_int status;
static pthread_t thread;

static void sleep_ms(long ms) {
  const struct timespec t = {ms / 1000, ms % 1000 * 1000000};
  nanosleep(&t, NULL);
}

/* On the thread, after each instruction. */
static void on_step(int signal_number, siginfo_t* info, void* context) {
  (void)signal_number, (void)info;
  if (++steps != stop_at) return;
  ((ucontext_t*)context)->uc_mcontext.gregs[REG_EFL] &= ~TRAP_FLAG;
  atomic_store(&held, 1);
  while (!atomic_load(&ends)) sleep_ms(1);
  sleep_ms(hold_ms); /* the end of the process has begun by now */
  atomic_store(&goes_on, 1);
}

static trl_dataset* open_rows(size_t size) {
  trl_dataset* dataset = NULL;
  if (trl_dataset_from_buffer(NULL, "jsonl", rows, size, NULL, &dataset, NULL) != TRL_OK) _exit(20);
  return dataset;
}

static void* count_rows(void* nothing) {
  trl_dataset *const few = open_rows(30), *const many = open_rows(3 * ROWS);
  int64_t count = 0;
  trl_status result;
  if (trl_dataset_get_row_count(few, &count, NULL) != TRL_OK || count != 10) _exit(21);
  __asm__ volatile("lea -128(%%rsp), %%rsp; pushfq; orq $0x100, (%%rsp); popfq; lea 128(%%rsp), %%rsp" ::
                       : "memory", "cc");
  result = trl_dataset_get_row_count(many, &count, NULL);
  __asm__ volatile("lea -128(%%rsp), %%rsp; pushfq; andq $~0x100, (%%rsp); popfq; lea 128(%%rsp), %%rsp" ::
                       : "memory", "cc");
  atomic_store(&status, result);
  atomic_store(&returned, 1);
  for (;;) pause();
  return nothing;
}

static long work_of_thread(void) {
  struct timespec t = {0, 0};
  clockid_t clock;
  if (pthread_getcpuclockid(thread, &clock) != 0 || clock_gettime(clock, &t) != 0) _exit(22);
  return t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

/* An exit handler, as the destructors of a library are: nothing may work beside it. */
static void at_exit(void) {
  int i;
  long before;
  if (hold_ms > 1000 && !atomic_load(&goes_on)) _exit(13);
  if (!atomic_load(&returned)) sleep_ms(10); /* it was held outside the call, and learns of the end now */
  for (i = 0; i < 10; ++i) {
    before = work_of_thread();
    sleep_ms(2);
    if (work_of_thread() == before) break;
  }
  if (atomic_load(&returned) && atomic_load(&status) != TRL_E_CANCELLED) _exit(11);
  _exit(i < 10 ? 0 : 12);
}

/* 0: the call was ended or blocked. */
static int hold_at(long instruction) {
  struct sigaction action;
  stop_at = instruction;
  memset(&action, 0, sizeof action);
  action.sa_sigaction = on_step;
  action.sa_flags = SA_SIGINFO;
  if (sigaction(SIGTRAP, &action, NULL) != 0 || atexit(at_exit) != 0) return 23;
  if (pthread_create(&thread, NULL, count_rows, NULL) != 0) return 24;
  while (!atomic_load(&held) && !atomic_load(&returned)) sleep_ms(1);
  if (!atomic_load(&held)) return 25;
  atomic_store(&ends, 1);
  exit(0);
}

int main(int argc, char** argv) {
  const long first = argc > 3 ? atol(argv[1]) : 0, last = argc > 3 ? atol(argv[2]) : 0;
  long i;
  int bad = 0;
  rows = malloc(3 * ROWS);
  if (rows == NULL || first < 1) return 2;
  hold_ms = atol(argv[3]);
  for (i = 0; i < ROWS; ++i) memcpy(rows + 3 * i, "{}\n", 3);
  for (i = first; i <= last && bad < 5; ++i) {
    int result = 0;
    const pid_t child = (fflush(NULL), fork());
    if (child < 0) return 2;
    if (child == 0) _exit(hold_at(i));
    waitpid(child, &result, 0);
    if (result == 0) continue;
    printf("held at instruction %ld: %s %d\n", i, WIFSIGNALED(result) ? "signal" : "ends with",
           WIFSIGNALED(result) ? WTERMSIG(result) : WEXITSTATUS(result));
    ++bad;
  }
  return bad == 0 ? 0 : 1;
}
#else
int main(void) { return 77; }
#endif
