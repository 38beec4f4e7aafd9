// usage: load_bench --model DIR|FILE.gguf|random:qwen2.5-0.5b [--tokenizer DIR] [--peer PYTHON] [--cold] ...
// Opening a model through the C ABI: seconds, how much anonymous memory grows, and the most resident; with
// --peer the same by transformers. Each run is a process of its own, in the order A B B A. Prints JSON lines.
#include <fcntl.h>

#include <filesystem>

#include "support/abi.h"
#include "support/command.h"
#include "support/random_model.h"
#include "support/runs.h"
#include "support/scratch.h"
#include "support/watch.h"

namespace {

namespace fs = std::filesystem;
using namespace trl::bench;

constexpr const char* kRandom = "random:qwen2.5-0.5b";

struct Settings : PeerSettings {
  std::string model, tokenizer, peer;
  std::vector<std::string> dtypes = {"bfloat16", "float32"};
  bool cold = false;
};

// Each side prints one object: by, seconds, parameters, anonymous_growth_bytes and peak_resident_bytes. Its
// libraries are loaded before.
int run_ours(const Json& work) {
  const std::string path = work.at("model"), first = work.at("first");
  trl_config* const config =
      config_of({{"runtime.threads", work.at("threads")}, {"dtype", work.at("dtype")}});
  trl_runtime* runtime = nullptr;
  trl_model* model = nullptr;
  TRL_CHECK(trl_runtime_create(config, &runtime, &error));
  if (trl_model_open(runtime, first.c_str(), config, &model, nullptr) >= 0)  // opens the engine, and fails
    throw std::runtime_error(first + " is not a model");
  Watch anonymous([] { return status_bytes("RssAnon"); }, std::chrono::milliseconds(1));
  const double begin = now();
  TRL_CHECK(trl_model_open(runtime, path.c_str(), config, &model, &error));
  const double seconds = now() - begin;
  const long grown = anonymous.grown();
  const char* described = nullptr;
  TRL_CHECK(trl_model_describe(model, &described, &error));
  print({{"by", std::string("libtrl ") + trl_version_string()},
         {"seconds", seconds},
         {"parameters", Json::parse(described).at("parameters")},
         {"anonymous_growth_bytes", grown},
         {"peak_resident_bytes", peak_resident()}});
  trl_model_destroy(model);
  trl_runtime_destroy(runtime);
  trl_config_destroy(config);
  return 0;
}

// Takes the files of the model out of the page cache.
void forget(const fs::path& path) {
  if (fs::is_directory(path)) {
    for (const auto& entry : fs::directory_iterator(path)) forget(entry.path());
    return;
  }
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return;
  ::fdatasync(file);
  ::posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
  ::close(file);
}

struct Side {
  std::string python;  // of libtrl: none
  std::vector<Json> runs;
};

void report(const std::string& dtype, bool cold, const std::vector<Side>& sides) {
  for (const Side& side : sides) {
    const double weights = side.runs[0].at("parameters").get<double>() * (dtype == "float32" ? 4 : 2);
    print({{"bench", "load"},
           {"by", side.runs[0].at("by")},
           {"dtype", dtype},
           {"files", cold ? "on disk" : "in the page cache"},
           {"seconds", median_of(side.runs, "seconds")},
           {"gigabytes_per_second", weights / median_of(side.runs, "seconds") / 1e9},
           {"anonymous_growth_of_weights", median_of(side.runs, "anonymous_growth_bytes") / weights},
           {"peak_resident_of_weights", median_of(side.runs, "peak_resident_bytes") / weights},
           {"peak_resident_bytes", median_of(side.runs, "peak_resident_bytes")},
           {"runs", side.runs.size()}});
  }
}

void measure(const Settings& s, const std::string& dtype, const Scratch& scratch) {
  const Json work = {
      {"model", s.model}, {"dtype", dtype}, {"threads", s.threads}, {"first", scratch.file("none")}};
  std::vector<Side> sides = {{"", {}}};
  if (!s.peer.empty()) sides.push_back({s.peer, {}});
  interleave(sides.size(), s.rounds, [&](size_t i) {
    if (s.cold) forget(s.model);
    sides[i].runs.push_back(sides[i].python.empty()
                                ? run_json({"/proc/self/exe", kChildFlag, work.dump()})
                                : run_json({sides[i].python, TRL_LOAD_PEER, work.dump()}));
  });
  report(dtype, s.cold, sides);
}

int run(int argc, char** argv) {
  Settings s;
  CLI::App app("Opening a model beside transformers");
  app.add_option("--model", s.model, "model directory, GGUF file, or random:qwen2.5-0.5b (its shape)");
  app.add_option("--tokenizer", s.tokenizer, "for a random model: a directory with its tokenizer's files");
  app.add_option("--dtype", s.dtypes, "types of the weights in memory");
  app.add_option("--peer", s.peer, "a Python that has transformers");
  app.add_flag("--cold", s.cold, "files are taken out of the page cache before each run");
  s.add_to(app);
  CLI11_PARSE(app, argc, argv);
  if (!s.child.empty()) return run_ours(Json::parse(s.child));
  const Scratch scratch(s.scratch);
  if (s.model == kRandom) {
    s.model = scratch.file("model");
    write_random_model(kQwen2_5_0_5B, s.tokenizer, s.model);
  }
  if (!fs::exists(s.model)) throw std::runtime_error("--model: a directory or a GGUF file is expected");
  for (const std::string& dtype : s.dtypes) measure(s, dtype, scratch);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return run_bench("load_bench", [&] { return run(argc, argv); });
}
