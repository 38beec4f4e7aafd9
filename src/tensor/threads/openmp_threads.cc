#include "tensor/threads/openmp_threads.h"

#include <ATen/Parallel.h>
#include <dlfcn.h>
#include <fmt/format.h>
#include <omp.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/threads/thread_pool.h"
#include "engine/blas.h"
#include "tensor/process_state.h"

namespace trl::tensor {

namespace {

engine::MappedBlock stack() { return {engine::stack_bytes(), true}; }

void name_member() {
  static thread_local bool named = false;
  if (named || omp_get_thread_num() == 0) return;
  base::name_thread(fmt::format("trl-openmp-{}", omp_get_thread_num()));
  named = true;
}

thread_local int team = 1;  // libgomp's threads of this thread, with it

// Throws Error(out_of_memory) if there is no room for the stacks of that many threads: libgomp would end the
// process.
void need_stacks(int threads) {
  if (engine::could_map(std::vector<engine::MappedBlock>(static_cast<size_t>(threads), stack()))) return;
  fail(Status::out_of_memory,
       "no address space for {} threads of OpenMP, each with a stack of {} MB; raise the limit of this "
       "process "
       "(ulimit -v), or set runtime.threads",
       threads, stack().bytes >> 20);
}

struct Closed {
  void operator()(void* library) const { ::dlclose(library); }
};
using Library = std::unique_ptr<void, Closed>;

void* own_blas() {
  Dl_info info{};
  ::dladdr(reinterpret_cast<void*>(&start_blas_threads), &info);
  static const std::string name = engine::blas_beside(info.dli_fname != nullptr ? info.dli_fname : "");
  return ::dlopen(name.c_str(), RTLD_NOW | RTLD_NOLOAD);
}

// The threads that compute with OpenBLAS.
struct BlasUsers {
  std::mutex mutex;
  int64_t now = 0, most = 0;
};

// A thread that computes with OpenBLAS, until it ends.
struct User {
  bool counted = false;
  ~User() {
    if (!counted) return;
    BlasUsers& users = process_state<BlasUsers>();
    const std::lock_guard lock(users.mutex);
    --users.now;
  }
};

// Throws Error(out_of_memory) if there is no room for the buffer of one more thread that computes, or for the
// stacks of OpenBLAS's own threads, whose buffers stay when they end.
void need_blas_memory(const Library& blas) {
  static thread_local User user;
  BlasUsers& users = process_state<BlasUsers>();
  const std::lock_guard lock(users.mutex);
  const auto number_of = [&](const char* name) {
    const auto* const number = static_cast<const int*>(::dlsym(blas.get(), name));
    return number == nullptr ? 0 : *number;
  };
  std::vector<engine::MappedBlock> blocks;
  if (!user.counted && users.now == users.most) blocks.push_back({engine::kBlasBuffer, true});
  if (number_of("blas_server_avail") == 0)
    for (int i = 1; i < number_of("blas_cpu_number"); ++i) blocks.push_back(stack());
  if (!engine::could_map(blocks))
    fail(Status::out_of_memory,
         "no address space for OpenBLAS: {} MB for a buffer, and the stacks of its threads; raise the limit "
         "of this process (ulimit -v), or set OPENBLAS_NUM_THREADS",
         engine::kBlasBuffer >> 20);
  if (!user.counted) users.most = std::max(users.most, ++users.now);
  user.counted = true;
}

}  // namespace

void set_openmp_threads(int threads) {
  at::internal::lazy_init_num_threads();  // sets libtorch's default at its first use on a thread
  omp_set_num_threads(threads);
}

// Starts the threads in a first, empty region, while the caller's signals are blocked too: they inherit its
// mask.
OpenMpThreads::OpenMpThreads(int threads) : before_(omp_get_max_threads()) {
  if (omp_in_parallel()) return;
  if (threads > team) need_stacks(threads - team);
  set_openmp_threads(threads);
  if (threads == 1) return;
  const base::NoSignals quiet;
#pragma omp parallel num_threads(threads)
  name_member();
  team = threads;
}

OpenMpThreads::~OpenMpThreads() {
  if (!omp_in_parallel()) omp_set_num_threads(before_);
}

void end_openmp_threads() {
  omp_pause_resource_all(omp_pause_hard);
  team = 1;
}

void start_blas_threads() {
  // MKL, in a libtorch other than Debian's, would use fewer of libgomp's threads for a product, and so end
  // some.
  if (const auto choose = reinterpret_cast<void (*)(int)>(::dlsym(RTLD_DEFAULT, "MKL_Set_Dynamic")))
    choose(0);
  const Library blas(own_blas());
  if (!blas) return;  // another BLAS, with libgomp's threads or without threads
  need_blas_memory(blas);
  const base::StartingThreads quiet("trl-blas");
  if (const auto start = reinterpret_cast<int (*)()>(::dlsym(blas.get(), "blas_thread_init"))) start();
}

}  // namespace trl::tensor
