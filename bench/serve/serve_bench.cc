// usage: serve_bench --model DIR|random:qwen2.5-0.5b [--part NAME ...] [--llama SERVER] ...
// Measures the server on this machine, through its C functions and over sockets. streams: concurrent streams
// beside the engine's own loop with as many sequences. idle: resident memory of idle connections. swap: an
// adapter that takes the place of another. tensors: all weights of a run on their way to the server. grpo: a
// step whose completions a server writes beside one of colocate, with equal ids. Prints JSON lines; exit
// status 1 if a bound is passed.
#include <filesystem>

#include "serve/client.h"
#include "serve/parts.h"
#include "support/random_model.h"

namespace {

using namespace trl::bench;

constexpr const char* kRandom = "random:qwen2.5-0.5b";

void add_options(CLI::App& app, ServeSettings& s) {
  std::vector<std::string> names;
  for (const ServePart& part : kServeParts) names.emplace_back(part.name);
  app.add_option("--model", s.model, "model directory or random:qwen2.5-0.5b (its shape)");
  app.add_option("--tokenizer", s.tokenizer, "for a random model: a directory with its tokenizer's files");
  app.add_option("--part", s.parts, "only these")->check(CLI::IsMember(names));
  app.add_option("--streams", s.streams, "at once")->check(CLI::Range(1, 1024));
  app.add_option("--prompt", s.prompt, "tokens of each prompt")->check(CLI::PositiveNumber);
  app.add_option("--new-tokens", s.new_tokens, "of each completion")->check(CLI::Range(2, 1 << 20));
  app.add_option("--connections", s.connections, "that are idle")->check(CLI::Range(1, 4000));
  app.add_option("--swaps", s.swaps, "of adapters")->check(CLI::PositiveNumber);
  app.add_option("--rank", s.rank, "of adapters")->check(CLI::PositiveNumber);
  app.add_option("--steps", s.steps, "of training, after the first")->check(CLI::PositiveNumber);
  app.add_option("--llama", s.llama, "llama.cpp's llama-server, beside the streams");
  s.add_to(app);
}

int run(int argc, char** argv) {
  ServeSettings s;
  CLI::App app("The server: streams, idle connections, adapters, runs that it writes for");
  add_options(app, s);
  CLI11_PARSE(app, argc, argv);
  if (!s.child.empty()) {
    print(read_streams(Json::parse(s.child)));
    return 0;
  }
  const Scratch scratch(s.scratch);
  if (s.model == kRandom) {
    s.model = scratch.file("model");
    write_random_model(kQwen2_5_0_5B, s.tokenizer, s.model);
  }
  if (!std::filesystem::is_directory(s.model)) throw std::runtime_error("--model: a directory is expected");
  bool good = true;
  for (const ServePart& part : kServeParts)
    if (s.parts.empty() || std::find(s.parts.begin(), s.parts.end(), part.name) != s.parts.end())
      good = part.measure(s, scratch) && good;
  return good ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  return run_bench("serve_bench", [&] { return run(argc, argv); });
}
