#include "entry/plan/plan_time.h"

#include "kernels/probe.h"
#include "memory/paged_memory.h"
#include "tensor/memory/libtorch_memory.h"
#include "train/saving/disk_needs.h"

namespace trl::entry {

using base::MemoryKind;

namespace {

// Returns the seconds of writing and reading. They may overlap with arithmetic; the plan does not count on
// that.
double add_leaving(Rehearsed& run, const config::TrainingArguments& arguments) {
  const std::string& directory = arguments.offload->directory;
  const memory::DiskSpeed disk = memory::disk_speed(directory);
  run.plan.leaving = {run.left, run.disk.activation_bytes, train::free_on_disk(directory), disk.write,
                      disk.read};
  const auto all = static_cast<double>(run.left);
  return all / disk.write + all / disk.read;
}

}  // namespace

double traffic_of(const tensor::Taken& taken) {
  const auto bytes = static_cast<double>(taken.bytes);
  if (taken.kind == MemoryKind::gradients)
    return 3 * bytes;  // zeroed, read for the norm, read for the update
  if (taken.kind == MemoryKind::optimizer) return 2 * bytes;
  if (taken.stage == "open" || taken.stage == "adapters" || taken.stage == tensor::kLibtorchMemory ||
      taken.kind == MemoryKind::data)
    return 0;
  return 3 * bytes;
}

void add_time(Rehearsed& run, const engine::PlanSpec& spec) {
  const config::TrainingArguments& arguments = spec.options->arguments;
  const kernels::Speed speed = kernels::probe(run.work);
  double seconds = speed.seconds + run.traffic / speed.bytes_per_second;
  if (run.left > 0) seconds += add_leaving(run, arguments);
  const int64_t tokens = config::micro_batches_per_step(arguments) * run.tokens;
  const auto of_step = static_cast<double>(tokens);
  const double all = spec.tokens > 0 ? spec.tokens : of_step * static_cast<double>(spec.steps);
  run.plan.time = {tokens, seconds, of_step / seconds, spec.steps, all, all / of_step * seconds};
}

}  // namespace trl::entry
