// usage: checkpoint_bench --model DIR|FILE.gguf --dataset FILE [--dtype T] [--output DIR] [--rounds N]
// Saving and resuming a checkpoint through the C ABI. A JSON line: bytes of a checkpoint; seconds to save it
// and to write as many bytes into as many files with plain write and fsync, medians; peak resident memory
// beyond what training held, of the save, and of the whole process that resumes beside one that only opens
// the model.
#include <fcntl.h>
#include <trl.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "support/child.h"

namespace {

using trl::bench::now;
using trl::bench::status_bytes;
namespace fs = std::filesystem;

struct Settings {
  std::string model, dataset, output = "checkpoint_bench.tmp", dtype = "bfloat16", resume;
  int rounds = 3;
  bool child = false;
};

[[noreturn]] void fail(const char* what) {
  std::fprintf(stderr, "checkpoint_bench: %s\n", what);
  std::exit(1);
}

void check(trl_status status, trl_error* error) {
  if (status < 0) fail(trl_error_message(error));
}

// The most that has been resident since the last reset; 0 without /proc/self/clear_refs.
void reset_peak() { std::ofstream("/proc/self/clear_refs") << "5"; }

trl_trainer* open_trainer(const Settings& s, const std::string& resume) {
  trl_error* error = nullptr;
  trl_config* config = nullptr;
  trl_dataset* rows = nullptr;
  trl_trainer* trainer = nullptr;
  check(trl_config_create(&config, &error), error);
  const std::pair<const char*, std::string> keys[] = {
      {"model_name_or_path", s.model},
      {"output_dir", s.output},
      {"max_steps", "100"},
      {"per_device_train_batch_size", "1"},
      {"max_length", "128"},
      {"save_strategy", "no"},
      {"dtype", s.dtype},
      {"resume_from_checkpoint", resume.empty() ? "null" : resume}};
  for (const auto& [key, value] : keys) check(trl_config_set(config, key, value.c_str(), &error), error);
  check(trl_dataset_open(nullptr, s.dataset.c_str(), config, &rows, &error), error);
  check(trl_trainer_create(nullptr, config, rows, nullptr, &trainer, &error), error);
  trl_dataset_destroy(rows);
  trl_config_destroy(config);
  return trainer;
}

// As many files of as many bytes, each written in pieces of a megabyte and synced once.
double plain_write(const fs::path& like, const fs::path& to) {
  const std::vector<char> piece(1 << 20, 'x');
  const double begin = now();
  fs::create_directories(to);
  for (const auto& entry : fs::directory_iterator(like)) {
    const int file = open((to / entry.path().filename()).c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0666);
    for (auto left = entry.file_size(); left > 0;) {
      const ssize_t done = write(file, piece.data(), std::min<size_t>(left, piece.size()));
      if (done <= 0) fail("a plain write failed");
      left -= static_cast<size_t>(done);
    }
    fsync(file);
    close(file);
  }
  const double seconds = now() - begin;
  fs::remove_all(to);
  return seconds;
}

int resume(const Settings& s) {
  const double begin = now();
  trl_trainer* trainer = open_trainer(s, s.resume);
  std::printf("%.3f %ld", now() - begin, trl::bench::peak_resident());
  trl_trainer_destroy(trainer);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Settings s;
  CLI::App app("Saving and resuming a checkpoint: seconds and memory");
  app.add_option("--model", s.model, "model directory or GGUF file")->required();
  app.add_option("--dataset", s.dataset, "rows")->required();
  app.add_option("--dtype", s.dtype, "of the weights");
  app.add_option("--output", s.output, "where to save; removed at the end");
  app.add_option("--rounds", s.rounds, "saves");
  app.add_option("--resume", s.resume, "")->group("");
  app.add_flag("--child", s.child, "")->group("");
  CLI11_PARSE(app, argc, argv);
  if (s.child) return resume(s);

  trl_error* error = nullptr;
  trl_config* options = nullptr;
  check(trl_config_create(&options, &error), error);
  check(trl_config_set(options, "save.kind", "checkpoint", &error), error);
  trl_trainer* trainer = open_trainer(s, "");
  check(trl_trainer_step(trainer, nullptr, &error), error);
  const fs::path saved = fs::path(s.output) / "saved";
  std::vector<double> saves, writes;
  long extra = 0;
  for (int round = 0; round < s.rounds; ++round) {
    fs::remove_all(saved);
    reset_peak();
    const long before = status_bytes("VmRSS");
    const double begin = now();
    check(trl_trainer_save(trainer, saved.c_str(), options, &error), error);
    saves.push_back(now() - begin);
    extra = std::max(extra, status_bytes("VmHWM") - before);
    writes.push_back(plain_write(saved, fs::path(s.output) / "plain"));
  }
  uintmax_t bytes = 0;
  for (const auto& entry : fs::directory_iterator(saved)) bytes += entry.file_size();
  trl_trainer_destroy(trainer);

  double seconds[2] = {};
  long peaks[2] = {};
  const std::string from[] = {"", saved.string()};
  for (int i = 0; i < 2; ++i) {
    const std::string out =
        trl::bench::run_child({"/proc/self/exe", "--child", "--model", s.model, "--dataset", s.dataset,
                               "--dtype", s.dtype, "--output", s.output, "--resume", from[i]});
    if (std::sscanf(out.c_str(), "%lf %ld", &seconds[i], &peaks[i]) != 2)
      fail("the process that resumes failed");
  }
  const double save = trl::bench::median(saves), plain = trl::bench::median(writes);
  std::printf(
      "{\"bench\": \"checkpoint\", \"bytes\": %ju, \"save_seconds\": %.3f, \"plain_write_seconds\": %.3f, "
      "\"ratio\": "
      "%.2f, \"save_extra_bytes\": %ld, \"open_seconds\": %.3f, \"resume_seconds\": %.3f, "
      "\"open_peak_bytes\": %ld, "
      "\"resume_peak_bytes\": %ld}\n",
      bytes, save, plain, save / plain, extra, seconds[0], seconds[1], peaks[0], peaks[1]);
  trl_config_destroy(options);
  fs::remove_all(s.output);
  return 0;
}
