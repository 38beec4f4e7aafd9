// usage: recompute_bench --model DIR|random:qwen2.5-0.5b --dataset FILE [--tokenizer DIR] [--tokens N] ...
// What each way to keep, compute again or move away activations costs: full fine-tuning of one row of
// --tokens tokens a step, each way in processes of its own, in the order A B C ... C B A. A JSON line for
// each: the median of the warm steps' seconds, that as a multiple of the first way's, peak resident memory,
// and whether all losses are equal; and before them what the disk of --scratch does.
#include <fcntl.h>

#include <filesystem>

#include "support/command.h"
#include "support/random_model.h"
#include "support/runs.h"
#include "support/scratch.h"
#include "train/sft_rows.h"
#include "train/sft_run.h"

namespace {

using namespace trl::bench;

struct Settings : PeerSettings {
  std::string model, tokenizer, dataset, dtype = "float32", only;
  int64_t tokens = 4096;
  int steps = 3;
  bool once = false;
};

struct Way {
  const char* name;
  Json options;
};

std::vector<Way> ways() {
  const auto again = [](const Json& kwargs) { return Json{{"gradient_checkpointing_kwargs", kwargs}}; };
  const Json kept = {{"gradient_checkpointing", false}};
  Json kept_away = kept, products_away = again({{"recompute", "products"}});
  kept_away["activation_offloading"] = products_away["activation_offloading"] = true;
  return {{"keep", kept},
          {"products", again({{"recompute", "products"}})},
          {"every 2 layers", again({{"every_n_layers", 2}})},
          {"selective", again({{"selective", true}})},
          {"layers", Json::object()},
          {"layers with inputs in a file", again({{"offload", true}})},
          {"keep in a file", kept_away},
          {"products in a file", products_away}};
}

// MB/s of a gigabyte that is written and synced, and of reading it again from the disk.
Json disk_speed(const std::string& path) {
  constexpr size_t kPiece = size_t{8} << 20, kCount = 128;
  const int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (file < 0) throw std::runtime_error(path + ": cannot be opened");
  std::vector<char> piece(kPiece, 'x');
  const auto measured = [&](const auto& body) {
    const double begin = now();
    for (size_t i = 0; i < kCount; ++i) {
      if (body(static_cast<off_t>(i * kPiece)) != static_cast<ssize_t>(kPiece))
        throw std::runtime_error(path + ": the disk refuses");
    }
    if (::fdatasync(file) != 0) throw std::runtime_error(path + ": cannot be synced");
    return 1e-6 * static_cast<double>(kPiece * kCount) / (now() - begin);
  };
  const double write = measured([&](off_t at) { return ::pwrite(file, piece.data(), kPiece, at); });
  ::posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
  const double read = measured([&](off_t at) { return ::pread(file, piece.data(), kPiece, at); });
  ::close(file);
  std::filesystem::remove(path);
  return {{"bench", "disk"}, {"write_mb_per_second", write}, {"read_mb_per_second", read}};
}

double median_seconds(const std::vector<Json>& runs) {
  std::vector<double> warm;
  for (const Json& run : runs)
    for (size_t i = 1; i < run.at("seconds").size(); ++i) warm.push_back(run["seconds"][i]);
  return median(warm);
}

int measure(Settings& s) {
  const Scratch scratch(s.scratch);
  if (s.model == "random:qwen2.5-0.5b") {
    s.model = scratch.file("model");
    write_random_model(kQwen2_5_0_5B, s.tokenizer, s.model);
  }
  write_long_rows(s.dataset, scratch.file("rows.jsonl"), s.tokens);
  print(disk_speed(scratch.file("disk")));
  std::vector<Way> all;
  for (Way& way : ways())
    if (s.only.empty() || ("," + s.only + ",").find("," + std::string(way.name) + ",") != std::string::npos)
      all.push_back(std::move(way));
  std::vector<std::vector<Json>> runs(all.size());
  const auto run = [&](size_t i) {
    Json options = {{"dtype", s.dtype},
                    {"per_device_train_batch_size", 1},
                    {"max_length", s.tokens},
                    {"offload_dir", scratch.file("")},
                    {"runtime.threads", s.threads}};
    options.update(all[i].options);
    runs[i].push_back(run_ours({s.model, scratch.file("rows.jsonl"), "", options, s.steps}));
  };
  if (s.once) {
    for (size_t i = 0; i < all.size(); ++i) run(i);
  } else {
    interleave(all.size(), s.rounds, run);
  }
  bool equal = true;
  for (size_t i = 0; i < all.size(); ++i) {
    const double seconds = median_seconds(runs[i]);
    bool same = true;
    for (const Json& one : runs[i]) same = same && one.at("losses") == runs[0][0].at("losses");
    equal = equal && same;
    print({{"bench", "recompute"},
           {"way", all[i].name},
           {"tokens", s.tokens},
           {"seconds", seconds},
           {"times_first", seconds / median_seconds(runs[0])},
           {"peak_resident_bytes", median_of(runs[i], "peak_resident_bytes")},
           {"losses_equal", same}});
  }
  return equal ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  return run_bench("recompute_bench", [&] {
    Settings s;
    CLI::App app("Activations: kept, computed again, or moved away");
    app.add_option("--model", s.model, "model directory, or random:qwen2.5-0.5b");
    app.add_option("--tokenizer", s.tokenizer, "for a random model: a directory with its tokenizer's files");
    app.add_option("--dataset", s.dataset, "JSON lines");
    app.add_option("--dtype", s.dtype, "of the weights; float32 computes in autocast");
    app.add_option("--tokens", s.tokens, "of a step, which is one row");
    app.add_option("--steps", s.steps, "of each run; the first is not measured")->check(CLI::Range(2, 1000));
    app.add_flag("--once", s.once, "one run of each, and not in both orders");
    app.add_option("--only", s.only, "names of ways, with commas between them");
    s.add_to(app);
    CLI11_PARSE(app, argc, argv);
    return s.child.empty() ? measure(s) : sft_child(s.child);
  });
}
