#include <poll.h>
#include <sys/socket.h>

#include <thread>

#include "serve/client.h"
#include "serve/parts.h"
#include "serve/served.h"
#include "support/abi.h"

namespace trl::bench {

namespace {

constexpr double kMostSwap = 0.02;  // seconds of a swap between requests

// Saves a new adapter of all linear layers.
void write_adapter(const ServeSettings& s, const std::string& directory) {
  trl_trainer* const trainer = open_trainer({{"method", "sft"},
                                             {"model_name_or_path", s.model},
                                             {"use_peft", true},
                                             {"lora_r", s.rank},
                                             {"lora_target_modules", "all-linear"},
                                             {"max_steps", 1},
                                             {"save_strategy", "no"},
                                             {"output_dir", directory}},
                                            1, 8, false);
  TRL_CHECK(trl_trainer_save(trainer, directory.c_str(), nullptr, &error));
  trl_trainer_destroy(trainer);
}

// Seconds of a request that is answered with 200.
double ask(int connection, const std::string& path, const Json& body) {
  const std::string bytes = http_request(path, body.dump());
  char piece[4096] = {};
  pollfd wait{connection, POLLIN, 0};
  const double begin = now();
  if (::send(connection, bytes.data(), bytes.size(), MSG_NOSIGNAL) <= 0 || ::poll(&wait, 1, 60000) <= 0 ||
      ::recv(connection, piece, sizeof piece - 1, 0) <= 0 ||
      std::string(piece).find(" 200 ") == std::string::npos)
    throw std::runtime_error(path + ": " + piece);
  return now() - begin;
}

}  // namespace

bool measure_swap(const ServeSettings& s, const Scratch& scratch) {
  const std::string directories[] = {scratch.file("adapter-0"), scratch.file("adapter-1")};
  for (const std::string& directory : directories) write_adapter(s, directory);
  const Served served(s.model, s.threads,
                      {{"serve.enable_lora", true},
                       {"serve.max_lora_rank", s.rank},
                       {"serve.adapter_dir", scratch.file("")}});
  const int connection = connect_to(served.port());
  const auto swap_all = [&] {
    std::vector<double> times;
    for (int64_t i = 0; i < s.swaps + 2; ++i)
      times.push_back(
          ask(connection, "/v1/load_lora_adapter",
              {{"lora_name", "policy"}, {"lora_path", directories[i % 2]}, {"load_inplace", true}}));
    times.erase(times.begin(), times.begin() + 2);  // cold pages
    return times;
  };
  const std::vector<double> alone = swap_all();
  Json bodies = stream_bodies(random_prompts(s.streams, s.prompt, served.vocabulary(), 1), 4 * s.new_tokens);
  for (Json& body : bodies) body["model"] = "policy";
  std::thread streams([&] { run_streams(served.port(), bodies); });
  while (running_in(served.server()) == 0) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  const std::vector<double> loaded = swap_all();
  streams.join();
  ::close(connection);
  print({{"bench", "swap"},
         {"rank", s.rank},
         {"swap_ms", percentiles(alone)},
         {"swap_ms_beside_streams", percentiles(loaded)},
         {"streams", s.streams}});
  return median(alone) < kMostSwap;
}

}  // namespace trl::bench
