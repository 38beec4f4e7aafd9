// usage: online_bench --model DIR|random:qwen2.5-0.5b [--method NAME] [--part fit|window|late|update|step
// ...]
//                     [--teacher DIR|random:qwen2.5-1.5b] [--peer PYTHON]
// ... methods that write completions, through the C ABI, each run in a process of its own. JSON lines.
// fit: updates over prompts of P tokens and groups of G completions of R: seconds = alpha P + beta G R +
// gamma. window: a group in four micro-batches, shuffled, beside one, and beside rows that share nothing.
// late: steps whose rewards come --late milliseconds after the completions, beside some that come at once.
// update: steps on given completions; with --peer beside TRL, whose losses must be equal (else exit status
// 1). step: the same with completions that each side writes. fit, window and late are of grpo alone.
#include <set>

#include "online/fit.h"
#include "online/steps.h"
#include "support/classifier.h"
#include "support/random_model.h"

namespace {

using namespace trl::bench;

constexpr std::string_view kQwen = "random:qwen2.5-0.5b", kQwenTeacher = "random:qwen2.5-1.5b";

// Writes the models of s that are not there.
void write_models(const Scratch& scratch, OnlineSettings& s) {
  if (s.model == kQwen) {
    s.model = scratch.file("model");
    write_random_model(kQwen2_5_0_5B, s.tokenizer, s.model);
  }
  if (s.teacher == kQwenTeacher) {
    s.teacher = scratch.file("teacher");
    write_random_model(kQwen2_5_1_5B, s.tokenizer, s.teacher);
  }
  if (s.method != "ppo") return;
  s.scorer = scratch.file("scorer");
  write_classifier(s.model, s.scorer);
}

int run(int argc, char** argv) {
  OnlineSettings s;
  std::set<std::string> parts;
  CLI::App app("Methods that write completions: seconds of a step and its parts; beside TRL");
  app.add_option("--method", s.method)
      ->check(CLI::IsMember(std::vector<std::string>(std::begin(kOnlineMethods), std::end(kOnlineMethods))));
  app.add_option("--model", s.model, "model directory, or random:qwen2.5-0.5b (its shape)");
  app.add_option("--tokenizer", s.tokenizer, "for a random model: a directory with its tokenizer's files");
  app.add_option("--teacher", s.teacher,
                 "gkd, distillation: a directory, or random:qwen2.5-1.5b (its shape)");
  app.add_option("--part", parts, "only these")
      ->check(CLI::IsMember({"fit", "window", "late", "update", "step"}));
  app.add_option("--precision", s.precision)->check(CLI::IsMember({"bf16", "autocast", "fp32"}));
  app.add_option("--steps", s.steps, "measured steps of a run, after the first")->check(CLI::Range(1, 1000));
  app.add_option("--peer-steps", s.peer_steps, "the same of the peer")->check(CLI::Range(1, 1000));
  app.add_option("--prompt", s.prompt, "tokens, about")->check(CLI::Range(8, 1 << 20));
  app.add_option("--completion", s.completion, "tokens")->check(CLI::Range(4, 1 << 20));
  app.add_option("--group", s.group, "completions of a step, a multiple of 4")->check(CLI::Range(4, 1024));
  app.add_option("--lora", s.lora, "trains an adapter of this rank on all linear layers; 0: all weights");
  app.add_option("--late", s.late, "milliseconds that rewards take in part late")
      ->check(CLI::Range(1, 60000));
  app.add_option("--peer", s.peer, "a Python that has trl");
  s.add_to(app);
  CLI11_PARSE(app, argc, argv);
  if (!s.child.empty()) return sft_child(s.child);
  if (s.has_teacher() && s.teacher.empty()) throw std::runtime_error("--teacher: " + s.method + " needs one");
  const Scratch scratch(s.scratch);
  write_models(scratch, s);
  const auto has = [&](const char* part) { return parts.empty() || parts.contains(part); };
  if (s.method == "grpo" && has("fit")) fit_updates(s, scratch);
  if (s.method == "grpo" && has("window")) compare_windows(s, scratch);
  if (s.method == "grpo" && has("late")) compare_late_rewards(s, scratch);
  bool equal = true;
  if (has("update")) equal = compare_steps(s, scratch, false);
  if (has("step")) equal = compare_steps(s, scratch, true) && equal;
  return equal ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  return run_bench("online_bench", [&] { return run(argc, argv); });
}
