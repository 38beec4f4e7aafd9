// What one process of pipeline_bench does: rows to batches, without the engine.
#pragma once
#include <cstdint>
#include <string>

namespace trl::bench {

struct PipelineWork {
  std::string model, rows, columns;
  std::string scratch;  // a folder for what memory does not take, and for the cache
  std::string kind;     // cold, warm: packed by bfd; none: not packed; streaming
  int threads = 0;
  int64_t max_length = 1024;
  bool cache = false;
  int64_t batches = 0;       // made after the first, and again
  bool to_the_end = false;   // when the pass over all rows is over
  bool digest = false;       // of all prepared rows
  double process_start = 0;  // on now()'s clock
};

// Measures it and prints it as one JSON object.
void run_pipeline(const PipelineWork& work);

}  // namespace trl::bench
