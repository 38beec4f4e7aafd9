// The threads of parallel regions. Each thread that computes has its own crew, which starts with the thread's
// first region and ends with the thread. Waiting threads spin briefly and then sleep (countdown.h), unlike
// libgomp's, which spin for milliseconds and so keep processors from other threads that need them.
#pragma once
#include <cstdint>

namespace trl::tensor {

// Calls part(i) for each i in [0, count), each on a separate thread if there are enough: the caller takes the
// first. Runs them one after another within such a part, and in a parallel region of the host's, which has
// its own threads. part must not throw.
void on_crew(int64_t count, void (*part)(const void* context, int64_t i), const void* context);

template <typename Part>
void on_crew(int64_t count, const Part& part) {
  on_crew(
      count, [](const void* context, int64_t i) { (*static_cast<const Part*>(context))(i); }, &part);
}

void end_crew();  // this thread's; the next region starts a new one

}  // namespace trl::tensor
