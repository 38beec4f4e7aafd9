#include <dirent.h>

#include <fstream>
#include <map>
#include <memory>

#include "serve/llama_server.h"
#include "serve/parts.h"
#include "serve/served.h"
#include "support/abi.h"

namespace trl::bench {

namespace {

constexpr double kShare = 0.9;  // of the engine's own throughput

// Seconds that the threads of this process have run for, by the names of the server's.
std::map<std::string, double> thread_seconds() {
  std::map<std::string, double> out;
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir("/proc/self/task"), ::closedir);
  while (const dirent* const entry = ::readdir(folder.get())) {
    const std::string task = std::string("/proc/self/task/") + entry->d_name;
    std::ifstream name_file(task + "/comm"), stat_file(task + "/schedstat");
    std::string name;
    double nanoseconds = 0;
    if (!std::getline(name_file, name) || !(stat_file >> nanoseconds)) continue;
    out[name.starts_with("trl-serve-") ? name.substr(10) : "others"] += 1e-9 * nanoseconds;
  }
  return out;
}

struct Loop {
  std::map<size_t, std::vector<double>> times;
  static int32_t tick(void* self, size_t number, int32_t, const char*, size_t, double) {
    static_cast<Loop*>(self)->times[number].push_back(now());
    return 0;
  }
};

// The engine's own loop with the same prompts, as a host writes it.
Json run_engine(trl_generator* generator, const std::vector<Prompt>& prompts, int64_t new_tokens) {
  trl_config* const config =
      config_of({{"generate.max_new_tokens", new_tokens}, {"generate.ignore_eos", true}});
  Loop loop;
  std::vector<size_t> numbers(prompts.size());
  const double begin = now();
  for (size_t i = 0; i < prompts.size(); ++i)
    TRL_CHECK(trl_generator_add(generator, nullptr, 0, prompts[i].data(), prompts[i].size(), config,
                                &numbers[i], &error));
  for (trl_status more = TRL_OK; more != TRL_END;) {
    trl_error* error = nullptr;
    more = trl_generator_step(generator, Loop::tick, &loop, &error);
    check(more, error);
  }
  const double end = now();
  trl_config_destroy(config);
  for (const size_t number : numbers) {
    trl_completions* taken = nullptr;
    TRL_CHECK(trl_generator_take(generator, number, 1, &taken, &error));
    trl_completions_destroy(taken);
  }
  std::vector<double> first, between;
  int64_t tokens = 0;
  for (const auto& [number, times] : loop.times) {
    tokens += static_cast<int64_t>(times.size());
    first.push_back(times[0] - begin);
    for (size_t i = 1; i < times.size(); ++i) between.push_back(times[i] - times[i - 1]);
  }
  return {{"seconds", end - begin}, {"tokens", tokens}, {"first", first}, {"between", between}};
}

// The runs of one side.
struct Side {
  std::vector<double> speeds, cpu;
  std::vector<double> first, between;
  std::map<std::string, double> threads;
  void add(const Json& run, int64_t tokens) {
    if (run.at("tokens") != tokens) throw std::runtime_error("streams: tokens are missing: " + run.dump());
    speeds.push_back(static_cast<double>(tokens) / run.at("seconds").get<double>());
    for (const double value : run.at("first")) first.push_back(value);
    for (const double value : run.at("between")) between.push_back(value);
  }
};

Json line_of(const ServeSettings& s, const char* name, const Side& side) {
  return {{"bench", "streams"},
          {"side", name},
          {"streams", s.streams},
          {"prompt", s.prompt},
          {"new_tokens", s.new_tokens},
          {"tokens_per_second", median(side.speeds)},
          {"first_token_ms", percentiles(side.first)},
          {"between_tokens_ms", percentiles(side.between)}};
}

}  // namespace

bool measure_streams(const ServeSettings& s, const Scratch& scratch) {
  const Served served(s.model, s.threads, {{"serve.max_num_seqs", s.streams}});
  trl_generator* generator = nullptr;
  TRL_CHECK(trl_generator_create(served.model(), nullptr, &generator, &error));
  std::unique_ptr<LlamaServer> llama;
  if (!s.llama.empty()) llama = std::make_unique<LlamaServer>(s, scratch);
  Side ours, engine, peer;
  std::vector<double> cpu_ours, cpu_engine;
  const int64_t tokens = s.streams * s.new_tokens;
  int number = 0;
  const auto prompts = [&] { return random_prompts(s.streams, s.prompt, served.vocabulary(), ++number); };
  const auto run_side = [&](size_t i) {
    const std::vector<Prompt> ids = prompts();
    const double cpu = cpu_seconds();
    if (i == 0) {
      engine.add(run_engine(generator, ids, s.new_tokens), tokens);
      cpu_engine.push_back(cpu_seconds() - cpu);
    } else if (i == 1) {
      const auto before = thread_seconds();
      ours.add(run_streams(served.port(), stream_bodies(ids, s.new_tokens)), tokens);
      cpu_ours.push_back(cpu_seconds() - cpu);
      for (const auto& [name, seconds] : thread_seconds()) {
        const auto found = before.find(name);
        ours.threads[name] += seconds - (found == before.end() ? 0 : found->second);
      }
    } else {
      peer.add(run_streams(llama->port(), stream_bodies(ids, s.new_tokens)), tokens);
    }
  };
  run_engine(generator, prompts(), 2);  // memory that is touched for the first time
  run_streams(served.port(), stream_bodies(prompts(), 2));
  interleave(llama ? 3 : 2, s.rounds, run_side);
  trl_generator_destroy(generator);

  print(line_of(s, "engine", engine));
  Json line = line_of(s, "server", ours);
  const double share = median(ours.speeds) / median(engine.speeds);
  line["share_of_engine"] = share;
  line["cpu_over_engine"] = median(cpu_ours) / median(cpu_engine);
  line["cpu_seconds_of_threads"] = ours.threads;
  print(line);
  bool good = share >= kShare;
  if (llama) {
    line = line_of(s, "llama.cpp", peer);
    const double ratio = median(ours.speeds) / median(peer.speeds);
    line["server_to_this"] = ratio;
    print(line);
    good = good && ratio >= 1;
  }
  return good;
}

}  // namespace trl::bench
