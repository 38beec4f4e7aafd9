// usage: pipeline_bench --model DIR|FILE.gguf --dataset FILE [--peer PYTHON] [--rows N] [--gigabytes N]
// Rows of prompts and completions -> batches, without the engine, each time in a fresh process. JSON lines:
// pass: reading, tokenising and packing (bfd) all rows, on one thread and on all, and by TRL and datasets in
// PYTHON; first_batch: from process start to the first batch; memory: the most resident over a file of
// --gigabytes, not packed (200 random batches while the pass over all rows is running, and 200 after it) and
// packed.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <map>
#include <vector>

#include "base/error.h"
#include "base/json/json.h"
#include "base/threads/thread_pool.h"
#include "data/pipeline_child.h"
#include "data/rows_file.h"
#include "support/child.h"

namespace {

namespace fs = std::filesystem;
using trl::base::Json;
using trl::bench::median;
using trl::bench::now;
using trl::bench::PipelineWork;

constexpr double kMegabyte = 1e6;

struct Settings {
  std::string dataset, peer, peer_model;
  int64_t rows = 100'000;
  double gigabytes = 2;
  int rounds = 3;
  PipelineWork work;
};

struct Runs {
  std::vector<Json> all;
  double median_of(const char* key) const {
    std::vector<double> values;
    for (const Json& run : all) values.push_back(run.at(key).get<double>());
    return median(values);
  }
};

void run(const std::vector<std::string>& words, Runs& runs) {
  const std::string out = trl::bench::run_child(words);
  const size_t object = out.find('{');
  if (object == std::string::npos) trl::fail(trl::Status::internal, "a process that measures failed");
  runs.all.push_back(trl::base::parse_json(std::string_view(out).substr(object), "child"));
}

void run_ours(PipelineWork work, const std::string& kind, int threads, Runs& runs) {
  if (kind != "warm") fs::remove_all(fs::path(work.scratch) / "cache");
  std::vector<std::string> words{"/proc/self/exe", "--model", work.model, "--dataset", work.rows};
  const std::pair<const char*, std::string> options[] = {{"--columns", work.columns},
                                                         {"--scratch", work.scratch},
                                                         {"--threads", std::to_string(threads)},
                                                         {"--max-length", std::to_string(work.max_length)},
                                                         {"--batches", std::to_string(work.batches)},
                                                         {"--cache", std::to_string(work.cache)},
                                                         {"--to-the-end", std::to_string(work.to_the_end)},
                                                         {"--digest", std::to_string(work.digest)},
                                                         {"--child", kind},
                                                         {"--child-start", std::to_string(now())}};
  for (const auto& [name, value] : options) words.insert(words.end(), {name, value});
  run(words, runs);
}

void run_peer(const Settings& s, const std::string& kind, Runs& runs) {
  const std::string cache = (fs::path(s.work.scratch) / "datasets").string();
  if (kind != "warm") fs::remove_all(cache);
  ::setenv("HF_DATASETS_CACHE", cache.c_str(), 1);
  ::setenv("HF_DATASETS_DISABLE_PROGRESS_BARS", "1", 1);
  ::setenv("HF_HUB_OFFLINE", "1", 1);
  ::setenv("PYTHONWARNINGS", "ignore", 1);
  std::vector<std::string> words{s.peer,
                                 TRL_PIPELINE_PEER,
                                 s.peer_model,
                                 s.work.rows,
                                 s.work.columns,
                                 kind,
                                 std::to_string(s.work.threads),
                                 std::to_string(s.work.max_length),
                                 std::to_string(now())};
  if (kind == "cold") words.emplace_back("digest");
  run(words, runs);
}

void print(Json line) { std::printf("%s\n", line.dump().c_str()), std::fflush(stdout); }

Json pass_line(const Runs& runs, double rows, double bytes, int threads) {
  const double seconds = runs.median_of("prepare_seconds");
  Json line = {{"bench", "pipeline"}, {"what", "pass"}, {"threads", threads}, {"rounds", runs.all.size()}};
  line["seconds"] = seconds;
  line["rows_per_second"] = rows / seconds;
  line["mb_per_second"] = bytes / seconds / kMegabyte;
  if (runs.all.front().contains("prepare_cpu_seconds"))
    line["mb_per_cpu_second"] = bytes / runs.median_of("prepare_cpu_seconds") / kMegabyte;
  for (const char* key : {"prepared_rows", "tokens", "digest", "peak_bytes", "versions"})
    if (runs.all.back().contains(key)) line[key] = runs.all.back()[key];
  return line;
}

void measure_speed(Settings s) {
  s.work.rows = (fs::path(s.work.scratch) / "rows.jsonl").string();
  trl::bench::repeat_rows(s.dataset, s.rows, s.work.rows);
  const auto bytes = static_cast<double>(fs::file_size(s.work.rows));
  const auto rows = static_cast<double>(s.rows);
  const int threads = s.work.threads;
  const std::vector<std::string> kinds{"none", "streaming", "cold", "warm"};  // warm right after cold
  std::map<std::string, Runs> ours, theirs;
  Runs single;
  for (int round = 0; round < s.rounds; ++round) {
    for (const std::string& kind : kinds) {
      s.work.cache = s.work.to_the_end = s.work.digest = kind == "cold" || kind == "warm";
      if (kind == "cold") run_ours(s.work, kind, 1, single);
      run_ours(s.work, kind, threads, ours[kind]);
      if (!s.peer.empty() && round == 0) run_peer(s, kind, theirs[kind]);
    }
  }
  print(pass_line(single, rows, bytes, 1));
  Json pass = pass_line(ours["cold"], rows, bytes, threads);
  print(pass);
  if (!s.peer.empty()) {
    Json line = pass_line(theirs["cold"], rows, bytes, threads);
    line["by"] = "datasets and TRL";
    line["ratio"] = line["seconds"].get<double>() / pass["seconds"].get<double>();
    line["same_packs"] = line["digest"] == pass["digest"] && line["tokens"] == pass["tokens"];
    print(line);
  }
  for (const std::string& kind : kinds) {
    Json line = {{"bench", "pipeline"}, {"what", "first_batch"}, {"kind", kind}, {"rows", s.rows}};
    const double seconds = ours[kind].median_of("first_batch_seconds");
    line["seconds"] = seconds;
    if (!s.peer.empty()) {
      const double peer = theirs[kind].median_of("first_batch_seconds");
      line["peer_seconds"] = peer;
      line["peer_prepare_seconds"] = theirs[kind].median_of("prepare_seconds");
      line["ratio"] = peer / seconds;
    }
    print(line);
  }
}

void measure_memory(Settings s) {
  s.work.rows = (fs::path(s.work.scratch) / "large.jsonl").string();
  trl::bench::make_rows(static_cast<int64_t>(s.gigabytes * 1e9), s.work.rows);
  s.work.batches = 200;
  s.work.to_the_end = true;
  for (const char* kind : {"none", "cold"}) {
    Runs runs;
    run_ours(s.work, kind, s.work.threads, runs);
    Json line = {{"bench", "pipeline"}, {"what", "memory"}, {"kind", kind}};
    line.update(runs.all.back());
    print(line);
  }
}

}  // namespace

int main(int argc, char** argv) try {
  Settings s;
  std::string child;
  s.work.columns = R"({"question": "prompt", "answer": "completion"})";
  s.work.threads = trl::base::available_cpus();
  CLI::App app("The data pipeline: speed, time to the first batch and memory");
  app.add_option("--model", s.work.model, "whose tokenizer: a model directory or a GGUF file")->required();
  app.add_option("--dataset", s.dataset, "JSON lines")->required();
  app.add_option("--columns", s.work.columns, "dataset_columns: what makes prompt and completion of them");
  app.add_option("--rows", s.rows, "how many the dataset is repeated to; 0: memory only");
  app.add_option("--gigabytes", s.gigabytes, "size of the file that memory is measured with; 0: speed only");
  app.add_option("--threads", s.work.threads, "where not one");
  app.add_option("--max-length", s.work.max_length, "of a packed row");
  app.add_option("--rounds", s.rounds, "processes of each kind");
  app.add_option("--peer", s.peer, "a Python that has trl and datasets");
  app.add_option("--peer-model", s.peer_model, "the model's directory, where --model is a GGUF file");
  app.add_option("--scratch", s.work.scratch, "a folder for files, which are removed at the end");
  app.add_option("--batches", s.work.batches, "")->group("");
  app.add_option("--cache", s.work.cache, "")->group("");
  app.add_option("--to-the-end", s.work.to_the_end, "")->group("");
  app.add_option("--digest", s.work.digest, "")->group("");
  app.add_option("--child", child, "")->group("");
  app.add_option("--child-start", s.work.process_start, "")->group("");
  CLI11_PARSE(app, argc, argv);
  if (!child.empty()) {
    s.work.kind = child;
    s.work.rows = s.dataset;
    run_pipeline(s.work);
    return 0;
  }
  if (s.peer_model.empty()) s.peer_model = s.work.model;
  const fs::path parent = s.work.scratch.empty() ? fs::temp_directory_path() : fs::path(s.work.scratch);
  fs::create_directories(parent);
  std::string own = (parent / "pipeline_bench-XXXXXX").string();
  if (::mkdtemp(own.data()) == nullptr) trl::fail(trl::Status::io, "{}: cannot be made", own);
  s.work.scratch = own;
  const struct Removed {
    std::string path;
    ~Removed() { fs::remove_all(path); }
  } removed{own};
  if (s.rows > 0) measure_speed(s);
  if (s.gigabytes > 0) measure_memory(s);
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "pipeline_bench: %s\n", error.what());
  return 1;
}
