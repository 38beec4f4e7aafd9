#include "tensor/team.h"

#include <omp.h>

#include "base/quiet_thread.h"
#include "tensor/parallel.h"

namespace trl::tensor {

namespace {

void name_member() {
  static thread_local bool named = false;
  if (named || omp_get_thread_num() == 0) return;
  base::name_thread(fmt::format("trl-kernel-{}", omp_get_thread_num()));
  named = true;
}

}  // namespace

// Threads are started by a first region, empty, while the caller takes no signals either: they have its mask.
Team::Team() : before_(omp_get_max_threads()) {
  if (omp_in_parallel()) return;  // the host's own: it has its threads
  omp_set_num_threads(threads());
  if (threads() == 1) return;
  const base::NoSignals quiet;
#pragma omp parallel num_threads(threads())
  name_member();
}

Team::~Team() {
  if (!omp_in_parallel()) omp_set_num_threads(before_);
}

void end_team() { omp_pause_resource_all(omp_pause_hard); }

}  // namespace trl::tensor
