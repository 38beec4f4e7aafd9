// The checkpoints of an output directory: checkpoint-<step>, as Trainer names them.
#pragma once
#include <memory>
#include <optional>
#include <string>

#include "base/log.h"
#include "checkpoint/checkpoint.h"

namespace trl::checkpoint {

std::string checkpoint_name(int64_t step);

// Throws Error(io) if directory is a checkpoint: a model saved into it would break it. key: the key that
// names the directory, or none.
void refuse_checkpoint(const std::string& directory, std::string_view key = "");

// Throws Error(io) if directory holds an adapter: programs that open the directory would apply it to a model
// that is saved there. key: as above.
void refuse_beside_adapter(const std::string& directory, std::string_view key = "");

// Treatment of another run's checkpoints: keep (by a run that writes none), refuse with an error, or remove.
enum class Others { keep, refuse, remove };

// Removes the leftovers of an interrupted save, before the first step of `run`. Throws Error(io) if Others is
// refuse and other checkpoints exist; a directory of that name that is not ours is never removed.
void prepare_directory(const std::string& output_dir, const std::string& run, Others others);

// Makes the same refusals, and those of resume_from_checkpoint (a path, "true", "auto" or none), before
// anything is opened: only by names and manifests, without reading a checkpoint's contents and without
// removing anything.
void check_directory(const std::string& output_dir, const std::optional<std::string>& from, Others others);

[[noreturn]] void refuse_to_resume(const std::string& output_dir);  // resume_from_checkpoint true

// Returns the newest checkpoint that a run can resume from, or none; each newer one that is damaged is a
// warning.
std::optional<Checkpoint> newest_good(const std::string& output_dir, base::LogSink& log);
// Returns the run that wrote the newest checkpoint, damaged or not; empty: no run did.
std::string newest_run(const std::string& output_dir);

// Removes the oldest checkpoints of `run` until `limit` are left (Trainer's save_total_limit): never the best
// one (its name, or empty), and, unless keep_newest is false, never the newest.
void rotate(const std::string& output_dir, const std::string& run, int64_t limit, const std::string& best,
            bool keep_newest = true);

// Lets only one run at a time write into an output directory: a lock (flock) on the directory itself, which
// ends with the process at the latest. Runs of one process share it. A file system without locks gives no
// such protection. Holds the lock as long as the result lives; null if the directory cannot be locked. Throws
// Error(io): another process holds it.
std::shared_ptr<void> lock_directory(const std::string& directory);

}  // namespace trl::checkpoint
