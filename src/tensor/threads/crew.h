// The threads of parallel regions. A thread that computes has a crew of its own, which begins with its first
// region and ends with it. Threads that wait spin briefly and then sleep (countdown.h), unlike libgomp's,
// which spin for milliseconds and so keep processors from whoever else needs them.
#pragma once
#include <cstdint>

namespace trl::tensor {

// part(i) for each i in [0, count), each on a thread of its own where there are enough: the caller takes the
// first. One after another within such a part, and in a parallel region of the host's, which has its threads.
// part must not throw.
void on_crew(int64_t count, void (*part)(const void* context, int64_t i), const void* context);

template <typename Part>
void on_crew(int64_t count, const Part& part) {
  on_crew(
      count, [](const void* context, int64_t i) { (*static_cast<const Part*>(context))(i); }, &part);
}

void end_crew();  // of this thread; the next region begins it again

}  // namespace trl::tensor
