// usage: decode_bench --model DIR|random:qwen2.5-0.5b [--peer PYTHON] [--llama PYTHON] ...
// Greedy decoding of one prompt: tokens a second and peak resident memory, through the C ABI in bfloat16;
// with --quantised also on weights in NF4 and in int8; with --peer also by transformers in bfloat16, with
// --llama also by llama.cpp in float16. Each run is a process of its own, in the order A B B A, on the same
// ids. Prints JSON lines.
#include <filesystem>

#include "support/abi.h"
#include "support/command.h"
#include "support/random_model.h"
#include "support/runs.h"
#include "support/scratch.h"

namespace {

namespace fs = std::filesystem;
using namespace trl::bench;

constexpr const char* kRandom = "random:qwen2.5-0.5b";

struct Settings : PeerSettings {
  std::string model, tokenizer, peer, llama;
  std::string prompt = "Once upon a time, in a village by the sea, there lived a fisherman who";
  int tokens = 200;
  bool quantised = false;
};

struct Clock {
  Json ids = Json::array();
  std::vector<double> times;
  static int32_t tick(void* self, size_t, int32_t token, const char*, size_t, double) {
    auto& clock = *static_cast<Clock*>(self);
    clock.times.push_back(now());
    clock.ids.push_back(token);
    return 0;
  }
};

// Each side prints one object: by, prompt and ids, the tokens a second after the first token, and the peak
// resident memory.
int run_ours(const Json& work) {
  const std::string path = work.at("model"), text = work.at("prompt"), dtype = "bfloat16";
  Json options = {{"runtime.threads", work.at("threads")},
                  {"dtype", dtype},
                  {"generate.max_new_tokens", work.at("tokens")}};
  if (work.contains("load")) options[work.at("load").get<std::string>()] = true;
  trl_config* const config = config_of(options);
  trl_runtime* runtime = nullptr;
  trl_model* model = nullptr;
  trl_tokenizer* tokenizer = nullptr;
  trl_generator* generator = nullptr;
  TRL_CHECK(trl_runtime_create(config, &runtime, &error));
  TRL_CHECK(trl_model_open(runtime, path.c_str(), config, &model, &error));
  TRL_CHECK(trl_tokenizer_open(runtime, path.c_str(), nullptr, &tokenizer, &error));
  TRL_CHECK(trl_generator_create(model, tokenizer, &generator, &error));
  std::vector<int32_t> prompt(text.size() + 16);
  size_t count = 0;
  TRL_CHECK(trl_tokenizer_encode(tokenizer, text.data(), text.size(), 1, 0, prompt.data(), prompt.size(),
                                 &count, &error));
  prompt.resize(count);
  Clock clock;
  const char* const prompts[] = {text.c_str()};
  TRL_CHECK(
      trl_generator_generate(generator, prompts, nullptr, 1, config, &Clock::tick, &clock, nullptr, &error));
  if (clock.times.size() < 2) throw std::runtime_error("the model ends at once: give another --prompt");
  const double seconds = clock.times.back() - clock.times.front();
  print({{"by", std::string("libtrl ") + trl_version_string()},
         {"prompt", prompt},
         {"ids", clock.ids},
         {"tokens_per_second", static_cast<double>(clock.times.size() - 1) / seconds},
         {"peak_resident_bytes", peak_resident()}});
  trl_generator_destroy(generator);
  trl_tokenizer_destroy(tokenizer);
  trl_model_destroy(model);
  trl_runtime_destroy(runtime);
  trl_config_destroy(config);
  return 0;
}

struct Side {
  std::string name, python;  // of libtrl: no Python
  std::vector<Json> runs;
  std::string load = {};  // the option that quantises
};

// llama.cpp reads float16 weights from a file of its own.
std::string converted(const Settings& s, const Scratch& scratch) {
  const std::string file = scratch.file("f16.gguf");
  trl_config* const config = config_of({{"convert.type", "f16"}});
  TRL_CHECK(trl_model_convert(nullptr, s.model.c_str(), file.c_str(), config, &error));
  trl_config_destroy(config);
  return file;
}

// How many of the first ids are the same.
size_t same_ids(const Json& a, const Json& b) {
  size_t same = 0;
  while (same < a.size() && same < b.size() && a[same] == b[same]) ++same;
  return same;
}

void report(const std::vector<Side>& sides) {
  std::vector<double> ours;
  for (const Side& side : sides) {
    std::vector<double> rates;
    for (const Json& run : side.runs) rates.push_back(run.at("tokens_per_second"));
    Json line = {{"bench", "decode"}, {"by", side.runs[0].at("by")}, {"setting", side.name}};
    line["tokens_per_second"] = median(rates);
    line["smallest"] = *std::min_element(rates.begin(), rates.end());
    line["largest"] = *std::max_element(rates.begin(), rates.end());
    line["runs"] = rates.size();
    line["tokens"] = side.runs[0].at("ids").size();
    line["peak_resident_bytes"] = median_of(side.runs, "peak_resident_bytes");
    if (&side == &sides[0]) {
      ours = rates;
    } else {
      line["ratio_of_ours"] = median(ours) / median(rates);
      line["same_first_ids"] = same_ids(sides[0].runs[0].at("ids"), side.runs[0].at("ids"));
    }
    print(line);
  }
}

void measure(const Settings& s, const Scratch& scratch) {
  Json work = {{"model", s.model}, {"prompt", s.prompt}, {"tokens", s.tokens}, {"threads", s.threads}};
  std::vector<Side> sides = {{"bf16", "", {}}};
  if (s.quantised) {
    sides.push_back({"nf4", "", {}, "load_in_4bit"});
    sides.push_back({"int8", "", {}, "load_in_8bit"});
  }
  if (!s.peer.empty()) sides.push_back({"transformers, bf16", s.peer, {}});
  if (!s.llama.empty()) {
    sides.push_back({"llama.cpp, f16", s.llama, {}});
    work["gguf"] = converted(s, scratch);
  }
  interleave(sides.size(), s.rounds, [&](size_t i) {
    Side& side = sides[i];
    if (side.python.empty()) {
      Json own = work;
      if (!side.load.empty()) own["load"] = side.load;
      side.runs.push_back(run_json({"/proc/self/exe", kChildFlag, own.dump()}));
      return;
    }
    Json theirs = work;
    theirs["prompt"] = sides[0].runs[0].at("prompt");
    theirs["side"] = side.name;
    side.runs.push_back(run_json({side.python, TRL_DECODE_PEER, theirs.dump()}));
  });
  report(sides);
}

int run(int argc, char** argv) {
  Settings s;
  CLI::App app("Greedy decoding of one prompt beside transformers and llama.cpp");
  app.add_option("--model", s.model, "model directory or random:qwen2.5-0.5b (its shape)");
  app.add_option("--tokenizer", s.tokenizer, "for a random model: a directory with its tokenizer's files");
  app.add_option("--prompt", s.prompt, "text");
  app.add_option("--tokens", s.tokens, "new ones at most")->check(CLI::Range(2, 1 << 20));
  app.add_flag("--quantised", s.quantised, "ours on weights in NF4 and in int8, too");
  app.add_option("--peer", s.peer, "a Python that has transformers");
  app.add_option("--llama", s.llama, "a Python that has llama_cpp");
  s.add_to(app);
  CLI11_PARSE(app, argc, argv);
  if (!s.child.empty()) return run_ours(Json::parse(s.child));
  const Scratch scratch(s.scratch);
  if (s.model == kRandom) {
    s.model = scratch.file("model");
    write_random_model(kQwen2_5_0_5B, s.tokenizer, s.model);
  }
  if (!fs::is_directory(s.model)) throw std::runtime_error("--model: a directory is expected");
  measure(s, scratch);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return run_bench("decode_bench", [&] { return run(argc, argv); });
}
