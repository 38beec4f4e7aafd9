// The checkpoints of an output directory: checkpoint-<step>, as Trainer names them.
#pragma once
#include <optional>
#include <string>

#include "base/log.h"
#include "checkpoint/checkpoint.h"

namespace trl::checkpoint {

std::string checkpoint_name(int64_t step);

// Throws Error(io) where directory is a checkpoint: a model saved into it would break it. key: that names the
// directory, or none.
void refuse_checkpoint(const std::string& directory, std::string_view key = "");

// Checkpoints of another run: left alone by a run that writes none, an error, or removed.
enum class Others { keep, refuse, remove };

// Before the first step of `run`: what an interrupted save left is removed. Throws Error(io) where Others is
// refuse and there are some; a directory of that name that is not ours is never removed.
void prepare_directory(const std::string& output_dir, const std::string& run, Others others);

// The same refusals, and those of resume_from_checkpoint (a path, "true", "auto" or none), before anything is
// opened: by names and manifests alone, without reading what a checkpoint holds, and nothing is removed.
void check_directory(const std::string& output_dir, const std::optional<std::string>& from, Others others);

[[noreturn]] void refuse_to_resume(const std::string& output_dir);  // resume_from_checkpoint true

// The newest one that a run can resume from; each newer one that is damaged is a warning. none: there is
// none.
std::optional<Checkpoint> newest_good(const std::string& output_dir, base::LogSink& log);
// The run that wrote the newest one, damaged or not; empty: none did.
std::string newest_run(const std::string& output_dir);

// Removes the oldest of `run` until `limit` are left (Trainer's save_total_limit): never the best one (its
// name, or empty), and, unless keep_newest is false, never the newest.
void rotate(const std::string& output_dir, const std::string& run, int64_t limit, const std::string& best,
            bool keep_newest = true);

}  // namespace trl::checkpoint
