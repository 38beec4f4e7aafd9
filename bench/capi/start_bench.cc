// usage: start_bench --model DIR|FILE.gguf [--rounds N]
// How soon the library is there, in fresh processes; a JSON line each, medians in seconds:
// load: dlopen of libtrl.so and trl_version. tensor: the first call that needs the engine. forward: from
// process start to the first token of a forward pass. step: from process start to the end of a first step of
// 512 tokens.
#include <dlfcn.h>
#include <trl.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "support/child.h"

namespace {

using trl::bench::now;

// A function of the library, which is only opened at run time so that opening can be measured.
template <typename F>
F symbol(void* library, const char* name) {
  return reinterpret_cast<F>(dlsym(library, name));
}
#define TRL_CALL(library, name) symbol<decltype(&name)>(library, #name)

double load(void*& library, const std::string& path) {
  const double begin = now();
  library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr || TRL_CALL(library, trl_version)() == 0) return -1;
  return now() - begin;
}

double tensor(void* library) {
  trl_runtime* runtime = nullptr;
  const char* json = nullptr;
  TRL_CALL(library, trl_runtime_create)(nullptr, &runtime, nullptr);
  const double begin = now();
  if (TRL_CALL(library, trl_runtime_describe)(runtime, &json, nullptr) != TRL_OK) return -1;
  return now() - begin;
}

trl_config* config_of(void* library, const std::vector<std::pair<const char*, std::string>>& pairs) {
  trl_config* config = nullptr;
  TRL_CALL(library, trl_config_create)(&config, nullptr);
  for (const auto& [key, value] : pairs)
    if (TRL_CALL(library, trl_config_set)(config, key, value.c_str(), nullptr) != TRL_OK) return nullptr;
  return config;
}

double forward(void* library, const std::string& path, double start) {
  trl_model* model = nullptr;
  trl_generator* generator = nullptr;
  trl_config* config = config_of(library, {{"dtype", "bfloat16"}, {"generate.max_new_tokens", "1"}});
  const char* prompt = "The keeper of the light";
  if (TRL_CALL(library, trl_model_open)(nullptr, path.c_str(), config, &model, nullptr) != TRL_OK ||
      TRL_CALL(library, trl_generator_create)(model, nullptr, &generator, nullptr) != TRL_OK ||
      TRL_CALL(library, trl_generator_generate)(generator, &prompt, nullptr, 1, config, nullptr, nullptr,
                                                nullptr, nullptr) != TRL_OK)
    return -1;
  return now() - start;
}

double step(void* library, const std::string& path, double start) {
  std::string row = "{\"text\": \"";
  for (int i = 0; i < 700; ++i) row += "tide ";
  row += "\"}\n";
  trl_dataset* rows = nullptr;
  trl_trainer* trainer = nullptr;
  trl_config* config =
      config_of(library, {{"model_name_or_path", path},
                          {"output_dir", std::filesystem::temp_directory_path() / "trl_start_bench"},
                          {"save_strategy", "no"},
                          {"dtype", "bfloat16"},
                          {"max_length", "512"},
                          {"max_steps", "1"},
                          {"gradient_checkpointing", "false"}});
  if (TRL_CALL(library, trl_dataset_from_buffer)(nullptr, "jsonl", row.data(), row.size(), config, &rows,
                                                 nullptr) != TRL_OK ||
      TRL_CALL(library, trl_trainer_create)(nullptr, config, rows, nullptr, &trainer, nullptr) != TRL_OK ||
      TRL_CALL(library, trl_trainer_step)(trainer, nullptr, nullptr) != TRL_OK)
    return -1;
  return now() - start;
}

}  // namespace

int main(int argc, char** argv) {
  std::string model, library_path = TRL_LIBRARY_PATH, what;
  int rounds = 5;
  double start = 0;
  CLI::App app("How soon the library is there");
  app.add_option("--model", model, "model directory or GGUF file")->required();
  app.add_option("--library", library_path, "libtrl.so");
  app.add_option("--rounds", rounds, "processes of each kind");
  app.add_option("--child", what, "")->group("");
  app.add_option("--child-start", start, "")->group("");
  CLI11_PARSE(app, argc, argv);
  if (!what.empty()) {
    void* library = nullptr;
    const double loaded = load(library, library_path);
    const double seconds = loaded < 0          ? loaded
                           : what == "load"    ? loaded
                           : what == "tensor"  ? tensor(library)
                           : what == "forward" ? forward(library, model, start)
                                               : step(library, model, start);
    std::printf("%.6f\n", seconds);
    return seconds < 0 ? 1 : 0;
  }
  int bad = 0;
  for (const char* kind : {"load", "tensor", "forward", "step"}) {
    std::vector<double> seconds;
    for (int round = 0; round < rounds; ++round) {
      const std::string out =
          trl::bench::run_child({"/proc/self/exe", "--model", model, "--library", library_path, "--child",
                                 kind, "--child-start", std::to_string(now())});
      if (!out.empty()) seconds.push_back(std::stod(out));
    }
    bad += seconds.empty();
    std::printf("{\"bench\": \"start\", \"what\": \"%s\", \"seconds\": %.4f, \"rounds\": %zu}\n", kind,
                trl::bench::median(seconds), seconds.size());
  }
  return bad > 0 ? 1 : 0;
}
