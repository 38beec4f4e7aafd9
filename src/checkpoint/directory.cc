#include "checkpoint/directory.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <algorithm>
#include <array>
#include <cerrno>
#include <map>
#include <mutex>

#include "adapter/config_file.h"
#include "base/error.h"
#include "base/text/number.h"
#include "tensor/process_state.h"

namespace trl::checkpoint {

namespace {

constexpr std::string_view kPrefix = "checkpoint-";

int64_t step_of(std::string_view name) {  // -1: not the name of a checkpoint
  if (!name.starts_with(kPrefix)) return -1;
  const std::optional<int64_t> step = base::parse_int64(name.substr(kPrefix.size()));
  return step && *step >= 0 && checkpoint_name(*step) == name ? *step : -1;
}

std::vector<std::string> oldest_first(const std::string& output_dir) {
  std::vector<std::pair<int64_t, std::string>> found;
  if (!base::is_directory(output_dir)) return {};
  for (const std::string& name : base::list_directory(output_dir)) {
    const std::string path = base::join_path(output_dir, name);
    if (step_of(name) >= 0 && base::is_directory(path)) found.emplace_back(step_of(name), path);
  }
  std::ranges::sort(found);
  std::vector<std::string> paths;
  for (auto& [step, path] : found) paths.push_back(std::move(path));
  return paths;
}

// key: the key that names the directory, or none.
template <typename... Args>
[[noreturn]] void fail_directory(std::string_view key, fmt::format_string<Args...> text, Args&&... args) {
  throw Error(Status::io, fmt::format(text, std::forward<Args>(args)...), std::string(key));
}

enum class Owner { known, none, unreadable };

Owner owner(const std::string& checkpoint, std::string* run) {
  try {
    const std::optional<Manifest> manifest = read_manifest(checkpoint);
    if (!manifest) return lost_manifest(checkpoint) ? Owner::unreadable : Owner::none;
    *run = manifest->run;
    return Owner::known;
  } catch (const Error&) {
    return Owner::unreadable;
  }
}

// Returns the checkpoints of other runs to remove before the first step of `run`.
std::vector<std::string> leaving(const std::string& output_dir, const std::string& run, Others others) {
  std::vector<std::string> out;
  if (others == Others::keep) return out;
  for (const std::string& path : oldest_first(output_dir)) {
    std::string other;
    const Owner found = owner(path, &other);
    if (found == Owner::unreadable || (found == Owner::known && other == run)) continue;
    if (found == Owner::known && others == Others::remove) {
      out.push_back(path);
      continue;
    }
    if (found == Owner::none) {
      fail_directory("output_dir",
                     "{} is not a libtrl checkpoint (it has no checksums.json): move it away, give another "
                     "output_dir, or save_strategy no",
                     path);
    }
    fail_directory("output_dir",
                   "output_dir: {} belongs to another run. To continue that run, give resume_from_checkpoint "
                   "auto. To keep it, give another output_dir (or save_strategy no). To replace it, give "
                   "overwrite_output_dir true.",
                   path);
  }
  return out;
}

std::string run_of(const std::string& resumed) {
  try {
    return resumable(resumed).run;
  } catch (const Error& error) {
    constexpr std::string_view kKey = "resume_from_checkpoint";
    throw error.with(fmt::format("{}: {}", kKey, error.message()), kKey);
  }
}

struct Held {
  explicit Held(int descriptor) : fd(descriptor) {}
  ~Held() { ::close(fd); }
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;
  const int fd;
};

struct Locks {
  std::mutex mutex;
  std::map<std::pair<dev_t, ino_t>, std::weak_ptr<Held>> held;
};

}  // namespace

std::string checkpoint_name(int64_t step) { return fmt::format("{}{}", kPrefix, step); }

void refuse_checkpoint(const std::string& directory, std::string_view key) {
  if (!base::file_exists(base::join_path(directory, kManifestName))) return;
  fail_directory(key, "{} is a checkpoint, and saving a model into it would break it: give another directory",
                 directory);
}

void refuse_beside_adapter(const std::string& directory, std::string_view key) {
  const std::string path = base::join_path(directory, adapter::kConfigFile);
  if (!base::file_exists(path)) return;
  fail_directory(key,
                 "{} is there, and an adapter beside a model is applied to it when it is opened: give "
                 "another directory, or move the adapter away",
                 path);
}

void prepare_directory(const std::string& output_dir, const std::string& run, Others others) {
  refuse_checkpoint(output_dir, "output_dir");
  base::clear_unfinished(output_dir, [](std::string_view target) {
    constexpr std::array<std::string_view, 6> kWritten = {"trainer_state.json", "report.html",
                                                          "log_history.csv",    "log_history.jsonl",
                                                          "config.json",        "generation_config.json"};
    return step_of(target) >= 0 || io::is_weight_file(target) ||
           std::ranges::find(kWritten, target) != kWritten.end();
  });
  for (const std::string& path : leaving(output_dir, run, others)) base::remove_directory(path);
}

void check_directory(const std::string& output_dir, const std::optional<std::string>& from, Others others) {
  refuse_checkpoint(output_dir, "output_dir");
  lock_directory(output_dir);
  std::string run;
  if (from && *from != "true" && *from != "auto") {
    run = run_of(*from);
  } else if (from) {
    run = newest_run(output_dir);
    if (run.empty() && *from == "true") refuse_to_resume(output_dir);
  }
  if (others == Others::remove && !run.empty()) others = Others::refuse;  // a resumed run removes nothing
  leaving(output_dir, run, others);
}

void refuse_to_resume(const std::string& output_dir) {
  fail_key("resume_from_checkpoint",
           "resume_from_checkpoint true: {} holds no checkpoint that can be resumed; auto starts from the "
           "beginning then",
           output_dir);
}

std::optional<Checkpoint> newest_good(const std::string& output_dir, base::LogSink& log) {
  const std::vector<std::string> paths = oldest_first(output_dir);
  for (size_t i = paths.size(); i-- > 0;) {
    try {
      Checkpoint found(paths[i]);
      found.state();
      return found;
    } catch (const Error& error) {
      if (error.status() == Status::cancelled) throw;  // it says nothing about the checkpoint
      log.warning("checkpoint", "{}; it is skipped", error.message());
    }
  }
  return std::nullopt;
}

std::string newest_run(const std::string& output_dir) {
  std::string run;
  for (const std::string& path : oldest_first(output_dir)) owner(path, &run);
  return run;
}

void rotate(const std::string& output_dir, const std::string& run, int64_t limit, const std::string& best,
            bool keep_newest) {
  std::vector<std::string> own;
  for (const std::string& path : oldest_first(output_dir)) {
    std::string other;
    if (owner(path, &other) == Owner::unreadable || other == run) own.push_back(path);
  }
  auto left = static_cast<int64_t>(own.size());
  for (size_t i = 0; i < own.size() && left > limit; ++i) {
    if (base::file_name(own[i]) == best || (keep_newest && i + 1 == own.size())) continue;
    base::remove_directory(own[i]);
    --left;
  }
}

std::shared_ptr<void> lock_directory(const std::string& directory) {
  const auto mine = std::make_shared<Held>(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  struct stat about {};
  if (mine->fd < 0 || ::fstat(mine->fd, &about) != 0) return nullptr;
  auto& locks = tensor::process_state<Locks>();
  const std::lock_guard guard(locks.mutex);
  std::weak_ptr<Held>& known = locks.held[{about.st_dev, about.st_ino}];
  if (auto held = known.lock()) return held;
  if (::flock(mine->fd, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return nullptr;
    fail_directory(
        "output_dir",
        "output_dir: another run is writing into {}: wait until it ends, or give another directory",
        directory);
  }
  known = mine;
  return mine;
}

}  // namespace trl::checkpoint
