// The threads of OpenMP's regions, which libtorch, oneDNN and attention plug-ins use: libgomp keeps a team of
// them for each thread that computes, and they spin for milliseconds before they sleep. The library's own
// regions use crews (crew.h).
#pragma once

namespace trl::tensor {

// Sets the number of threads in the regions that this thread starts during its lifetime; the host's own
// number is restored. If it is more than one, the threads are started here, with signals blocked and with
// names. Does nothing within a region of the host's, which has its own threads.
class OpenMpThreads {
 public:
  explicit OpenMpThreads(int threads);
  ~OpenMpThreads();
  OpenMpThreads(const OpenMpThreads&) = delete;
  OpenMpThreads& operator=(const OpenMpThreads&) = delete;

 private:
  const int before_;
};

void set_openmp_threads(int threads);  // for this thread, permanently
void end_openmp_threads();             // this thread's

// Starts the threads of OpenBLAS, which only libtorch's own products on the CPU use, if they are not running.
// Otherwise the first product would start them, without a name, and with the signals of the thread that
// computes it unblocked. engine::end_blas_threads() ends them.
void start_blas_threads();

}  // namespace trl::tensor
