// usage: adapter_memory_bench --model FILE.gguf|DIR|random:qwen2.5-0.5b|random:qwen3-4b --dataset FILE ...
// What training an adapter takes: LoRA on all linear layers with recomputation, rows of exactly --tokens
// tokens, in a process that has the libraries loaded and, of a GGUF file, the file mapped and read. Prints
// one JSON line: the private memory (smaps: Private_Clean and Private_Dirty, less the file's own pages) that
// opening the model and the steps add at most; the most resident; seconds of a step.
#include <fcntl.h>
#include <sys/mman.h>

#include <filesystem>

#include "support/abi.h"
#include "support/command.h"
#include "support/random_model.h"
#include "support/runs.h"
#include "support/scratch.h"
#include "support/watch.h"
#include "train/sft_rows.h"

namespace {

namespace fs = std::filesystem;
using namespace trl::bench;

constexpr std::string_view kRandom = "random:";

struct Settings : CommonSettings {
  std::string model, tokenizer, dataset, convert, dtype, targets = "all-linear";
  int64_t tokens = 512;
  int rank = 8, steps = 2;
  bool load_in_4bit = false;
};

// Bytes that only this process has, except for those of the file.
long private_bytes(const std::string& file) {
  std::ifstream smaps("/proc/self/smaps");
  long sum = 0;
  bool counts = true;
  for (std::string line; std::getline(smaps, line);) {
    const std::string word = line.substr(0, line.find(' '));
    if (word.find('-') != std::string::npos) {  // the head of a mapping
      counts = file.empty() || !line.ends_with(file);
    } else if (counts && (word == "Private_Clean:" || word == "Private_Dirty:")) {
      sum += std::strtol(line.c_str() + word.size(), nullptr, 10) * 1024;
    }
  }
  return sum;
}

// As a host does that runs the file already.
void map(const std::string& file) {
  const int handle = ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
  const auto size = static_cast<size_t>(fs::file_size(file));
  const void* const at = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, handle, 0);
  if (handle < 0 || at == MAP_FAILED) throw std::runtime_error(file + ": cannot be mapped");
  ::close(handle);
  volatile char sum = 0;
  for (size_t i = 0; i < size; i += 4096) sum = static_cast<char>(sum + static_cast<const char*>(at)[i]);
}

// The engine is loaded by the first call that needs it, and fails.
void load_libraries(const std::string& nothing) {
  trl_model* model = nullptr;
  if (trl_model_open(nullptr, nothing.c_str(), nullptr, &model, nullptr) >= 0)
    throw std::runtime_error(nothing + " is not a model");
}

int measure_in_child(const Json& work) {
  const std::string file = work.at("file");
  load_libraries(work.at("nothing"));
  if (!file.empty()) map(file);
  const long resident = status_bytes("VmRSS");
  Watch memory([&] { return private_bytes(file); }, std::chrono::milliseconds(5));
  trl_config* const config = config_of(work.at("options"));
  trl_dataset* rows = nullptr;
  trl_trainer* trainer = nullptr;
  TRL_CHECK(trl_dataset_open(nullptr, work.at("dataset").get<std::string>().c_str(), config, &rows, &error));
  TRL_CHECK(trl_trainer_create(nullptr, config, rows, nullptr, &trainer, &error));
  const long opened = peak_resident();
  Json seconds;
  double tokens = 0;
  for (int step = 0; step < work.at("options").at("max_steps").get<int>(); ++step) {
    const trl_metrics* metrics = nullptr;
    const double begin = now();
    TRL_CHECK(trl_trainer_step(trainer, &metrics, &error));
    seconds.push_back(now() - begin);
    trl_metrics_get(metrics, "num_tokens", &tokens);
  }
  Json out = {{"tokens", tokens}, {"seconds_of_steps", seconds}};
  out["private_added_bytes"] = memory.grown();
  out["resident_before_bytes"] = resident;
  out["peak_resident_opened_bytes"] = opened;
  out["peak_resident_bytes"] = peak_resident();
  print(out);
  trl_trainer_destroy(trainer);
  trl_dataset_destroy(rows);
  trl_config_destroy(config);
  return 0;
}

std::string converted(const Settings& s, const std::string& file) {
  trl_config* const config = config_of({{"convert.type", s.convert}});
  TRL_CHECK(trl_model_convert(nullptr, s.model.c_str(), file.c_str(), config, &error));
  trl_config_destroy(config);
  return file;
}

void prepare(Settings& s, const Scratch& scratch) {
  if (s.model.starts_with(kRandom)) {
    const std::string name = s.model.substr(kRandom.size());
    s.model = scratch.file("model");
    if (name == "qwen2.5-0.5b") {
      write_random_model(kQwen2_5_0_5B, s.tokenizer, s.model);
    } else {
      run_json({TRL_RANDOM_MODEL, name, s.tokenizer, s.model});
    }
  }
  if (!s.convert.empty()) s.model = converted(s, scratch.file("model.gguf"));
  if (!fs::exists(s.model)) throw std::runtime_error("--model: not there");
  write_long_rows(s.dataset, scratch.file("rows.jsonl"), s.tokens);
}

int run(int argc, char** argv) {
  Settings s;
  CLI::App app("Memory that training an adapter takes");
  app.add_option("--model", s.model, "GGUF file, model directory, random:qwen2.5-0.5b or random:qwen3-4b");
  app.add_option("--tokenizer", s.tokenizer, "for a random model: a directory with its tokenizer's files");
  app.add_option("--convert", s.convert, "to a GGUF file of this convert.type first");
  app.add_option("--dataset", s.dataset, "JSON lines");
  app.add_option("--dtype", s.dtype, "keep of a GGUF file, else bfloat16");
  app.add_flag("--load-in-4bit", s.load_in_4bit, "NF4");
  app.add_option("--targets", s.targets, "lora_target_modules");
  app.add_option("--rank", s.rank, "lora_r");
  app.add_option("--tokens", s.tokens, "of a step, which is one row");
  app.add_option("--steps", s.steps, "all are measured");
  s.add_to(app);
  CLI11_PARSE(app, argc, argv);
  if (!s.child.empty()) return measure_in_child(Json::parse(s.child));
  const Scratch scratch(s.scratch);
  prepare(s, scratch);
  const bool is_file = !fs::is_directory(s.model);
  if (s.dtype.empty()) s.dtype = is_file ? "keep" : "bfloat16";
  const Json options = {{"model_name_or_path", s.model},
                        {"output_dir", scratch.file("out")},
                        {"save_strategy", "no"},
                        {"dtype", s.dtype},
                        {"use_peft", true},
                        {"lora_r", s.rank},
                        {"lora_target_modules", s.targets},
                        {"load_in_4bit", s.load_in_4bit},
                        {"gradient_checkpointing", true},
                        {"per_device_train_batch_size", 1},
                        {"max_length", s.tokens},
                        {"max_steps", s.steps},
                        {"runtime.threads", s.threads}};
  const Json work = {{"file", is_file ? fs::canonical(s.model).string() : ""},
                     {"nothing", scratch.file("none")},
                     {"dataset", scratch.file("rows.jsonl")},
                     {"options", options}};
  Json line = {{"bench", "adapter memory"}, {"dtype", s.dtype}, {"rank", s.rank}, {"targets", s.targets}};
  line.update(run_json({"/proc/self/exe", kChildFlag, work.dump()}));
  print(line);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return run_bench("adapter_memory_bench", [&] { return run(argc, argv); });
}
