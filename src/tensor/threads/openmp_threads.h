// The threads of OpenMP's regions, which are those of libtorch, of oneDNN and of attention plug-ins: libgomp
// keeps a team of them for each thread that computes, and they spin for milliseconds before they sleep. The
// library's own regions have crews (crew.h).
#pragma once

namespace trl::tensor {

// How many threads the regions have that this thread begins while this lives; the host's own number is put
// back. More than one are started here, take no signals and have names. Does nothing within a region of the
// host's, which has its threads.
class OpenMpThreads {
 public:
  explicit OpenMpThreads(int threads);
  ~OpenMpThreads();
  OpenMpThreads(const OpenMpThreads&) = delete;
  OpenMpThreads& operator=(const OpenMpThreads&) = delete;

 private:
  const int before_;
};

void set_openmp_threads(int threads);  // of this thread, for good
void end_openmp_threads();             // of this thread

}  // namespace trl::tensor
