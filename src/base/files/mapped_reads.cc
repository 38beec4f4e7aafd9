#include "base/files/mapped_reads.h"

#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <mutex>

namespace trl::base {

// The handler walks the list, so a range is never freed: an unused one begins at 0.
struct MappedRange {
  std::atomic<uintptr_t> begin{0};
  std::atomic<size_t> size{0};
  std::atomic<bool> writable{false};
  std::atomic<bool> damaged{false};
  MappedRange* next = nullptr;
};

namespace {

constinit std::mutex changes;
constinit std::atomic<MappedRange*> ranges{nullptr};
int used_ranges = 0, scopes = 0;
bool installed = false;
bool below_another = false;  // a handler installed later calls ours if it calls the previous one
struct sigaction handler_before;

// Maps zeros from the page of the address to the end of its range. A signal handler may call mmap: it is a
// plain system call.
bool replace(uintptr_t address) noexcept {
  static const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  for (MappedRange* range = ranges.load(); range != nullptr; range = range->next) {
    const uintptr_t begin = range->begin.load(), size = range->size.load();
    if (begin == 0 || address < begin || address - begin >= (size + page - 1) / page * page) continue;
    range->damaged = true;
    const uintptr_t first = address / page * page;
    void* const place = reinterpret_cast<void*>(first);
    const int access = range->writable.load() ? PROT_READ | PROT_WRITE : PROT_READ;
    return ::mmap(place, begin + size - first, access, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) ==
           place;
  }
  return false;
}

void on_fault(int number, siginfo_t* info, void* context) {
  const int error = errno;
  const bool fault = info->si_code > 0;  // not a signal that a process sent
  const bool ours = fault && replace(reinterpret_cast<uintptr_t>(info->si_addr));
  errno = error;
  if (ours) return;
  if ((handler_before.sa_flags & SA_SIGINFO) != 0) return handler_before.sa_sigaction(number, info, context);
  if (handler_before.sa_handler == SIG_IGN && !fault) return;
  if (handler_before.sa_handler != SIG_DFL && handler_before.sa_handler != SIG_IGN)
    return handler_before.sa_handler(number);
  struct sigaction plain {};
  plain.sa_handler = SIG_DFL;
  ::sigaction(number, &plain, nullptr);
  if (!fault) ::raise(number);  // a fault recurs without help
}

bool is_ours(const struct sigaction& action) {
  return (action.sa_flags & SA_SIGINFO) != 0 && action.sa_sigaction == on_fault;
}

void update() {
  const bool wanted = scopes > 0 && used_ranges > 0;
  if (wanted == installed) return;
  struct sigaction now {};
  ::sigaction(SIGBUS, nullptr, &now);
  if (wanted && !below_another) {
    handler_before = now;
    struct sigaction ours {};
    ours.sa_sigaction = on_fault;
    ours.sa_flags = SA_SIGINFO | SA_ONSTACK;
    ::sigaction(SIGBUS, &ours, nullptr);
  } else if (!wanted && is_ours(now)) {
    below_another = false;
    ::sigaction(SIGBUS, &handler_before, nullptr);
  } else if (!wanted) {
    below_another = true;
  }
  installed = wanted;
}

}  // namespace

MappedReads::MappedReads() noexcept {
  sigset_t fault;
  sigemptyset(&fault);
  sigaddset(&fault, SIGBUS);
  pthread_sigmask(SIG_UNBLOCK, &fault, &before_);
  const std::lock_guard lock(changes);
  ++scopes;
  update();
}

MappedReads::~MappedReads() {
  {
    const std::lock_guard lock(changes);
    --scopes;
    update();
  }
  sigset_t now;
  pthread_sigmask(SIG_SETMASK, nullptr, &now);
  if (sigismember(&before_, SIGBUS) == 1) sigaddset(&now, SIGBUS);
  pthread_sigmask(SIG_SETMASK, &now, nullptr);
}

MappedRange* add_range(const char* begin, size_t size, bool writable) {
  const std::lock_guard lock(changes);
  MappedRange* range = ranges.load();
  while (range != nullptr && range->begin != 0) range = range->next;
  if (range == nullptr) {
    range = new MappedRange;
    range->next = ranges.load();
    ranges = range;
  }
  range->size = size;
  range->writable = writable;
  range->damaged = false;
  range->begin = reinterpret_cast<uintptr_t>(begin);
  ++used_ranges;
  update();
  return range;
}

bool is_mapped(const char* at) noexcept {
  const auto address = reinterpret_cast<uintptr_t>(at);
  for (const MappedRange* range = ranges.load(); range != nullptr; range = range->next) {
    const uintptr_t begin = range->begin;
    if (begin != 0 && address >= begin && address - begin < range->size && !range->writable) return true;
  }
  return false;
}

bool is_damaged(const MappedRange& range) noexcept { return range.damaged; }

void remove_range(MappedRange* range) noexcept {
  const std::lock_guard lock(changes);
  range->begin = 0;
  --used_ranges;
  update();
}

}  // namespace trl::base
