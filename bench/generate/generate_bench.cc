// usage: generate_bench --model DIR|random:qwen2.5-0.5b [--text FILE] [--only PART ...] [--peer PYTHON]
//   [--llama PYTHON] ...
// Measures generation in one run and prints JSON lines: the speeds of the machine; whole steps of decoding as
// a share of the least time that the machine allows; a group of completions beside one; the release of
// all keys and values; prompt lookup beside the same texts without it; steps of training with
// generation_exact; the same texts by transformers, and the same steps by llama.cpp.
#include "generate/child.h"
#include "generate/compare.h"
#include "generate/local.h"
#include "support/random_model.h"
#include "tensor/threads/parallel.h"

namespace {

using namespace trl::bench;

constexpr const char* kRandom = "random:qwen2.5-0.5b";

void measure_here(const GenerateSettings& s, Prompts& prompts) {
  trl::tensor::set_threads(s.threads);
  const at::NoGradGuard no_grad;
  Machine machine;
  if (s.wants("steps")) {
    machine = measure_machine(s.seconds);
    print(line_of(machine));
  }
  for (const std::string& name : s.forms) {
    if (!s.wants("steps") && !s.wants("group") && !s.wants("release") && !s.wants("lookup")) break;
    const Form form = form_of(name);
    const auto model = trl::model::Model::open(s.model, form.dtype);
    if (s.wants("steps")) measure_steps(s, machine, *model, form, prompts);
    if (s.wants("group")) measure_group(s, *model, form, prompts);
    if (s.wants("release")) measure_release(s, *model, form, prompts);
    if (s.wants("lookup")) measure_lookup(s, *model, form, prompts);
  }
}

void add_options(CLI::App& app, GenerateSettings& s) {
  app.add_option("--model", s.model, "model directory or random:qwen2.5-0.5b (its shape)");
  app.add_option("--tokenizer", s.tokenizer, "for a random model: a directory with its tokenizer's files");
  app.add_option("--text", s.text, "a file whose tokens are the prompts (default: random ids)");
  app.add_option("--only", s.only, "parts of the bench (default: all that can be)")
      ->check(CLI::IsMember({"steps", "group", "release", "lookup", "exact", "batch", "texts", "llama"}));
  app.add_option("--forms", s.forms, "of the weights")->check(CLI::IsMember({"f32", "bf16", "int8", "int4"}));
  app.add_flag("--int8-cache", s.int8_cache, "keys and values as integers, in steps and groups");
  app.add_option("--sequences", s.sequences, "of a step")->check(CLI::PositiveNumber);
  app.add_option("--context", s.context, "tokens before a step")->check(CLI::PositiveNumber);
  app.add_option("--steps", s.steps, "of each number")->check(CLI::PositiveNumber);
  app.add_option("--prompt", s.prompt, "tokens of a group's prompt")->check(CLI::PositiveNumber);
  app.add_option("--pool", s.pool, "gigabytes of keys and values that are released")
      ->check(CLI::PositiveNumber);
  app.add_option("--row", s.row, "tokens of a row of training")->check(CLI::PositiveNumber);
  app.add_option("--new-tokens", s.new_tokens, "of a text beside transformers")
      ->check(CLI::Range(2, 1 << 20));
  app.add_option("--texts", s.texts, "of lognormal lengths")->check(CLI::PositiveNumber);
  app.add_option("--peer-forms", s.peer_forms, "of transformers' weights")
      ->check(CLI::IsMember({"f32", "bf16"}));
  app.add_option("--peer-batches", s.batches, "of transformers, for texts of lognormal lengths")
      ->check(CLI::PositiveNumber);
  app.add_option("--peer", s.peer, "a Python that has transformers");
  app.add_option("--llama", s.llama, "a Python that has llama_cpp");
  app.add_option("--seconds", s.seconds, "for each speed of the machine")->check(CLI::PositiveNumber);
  s.add_to(app);
}

int run(int argc, char** argv) {
  GenerateSettings s;
  CLI::App app("Generation of many sequences, alone and beside others");
  add_options(app, s);
  CLI11_PARSE(app, argc, argv);
  if (!s.child.empty()) {
    print(run_work(Json::parse(s.child)));
    return 0;
  }
  std::sort(s.sequences.begin(), s.sequences.end());
  const Scratch scratch(s.scratch);
  if (s.model == kRandom) {
    s.model = scratch.file("model");
    write_random_model(kQwen2_5_0_5B, s.tokenizer, s.model);
  }
  if (!std::filesystem::is_directory(s.model)) throw std::runtime_error("--model: a directory is expected");
  Prompts prompts(s.model, s.text);
  measure_here(s, prompts);
  if (s.wants("exact"))
    for (const char* form : {"f32", "bf16"}) measure_exact(s, form_of(form), prompts);
  if (!s.peer.empty() && s.wants("batch")) compare_batch(s, scratch, prompts);
  if (!s.peer.empty() && s.wants("texts")) compare_texts(s, scratch, prompts);
  if (!s.llama.empty() && s.wants("llama")) compare_llama(s, scratch, prompts);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return run_bench("generate_bench", [&] { return run(argc, argv); });
}
