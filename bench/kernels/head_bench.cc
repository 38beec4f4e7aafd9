// usage: head_bench [--tokens N ...] [--vocab N] [--width N] [--precision bf16|fp32] [--peer PYTHON]
// Linear head and cross-entropy, forward and backward, in one kernel, and in ATen's operators as with
// fused_kernels: off; with --peer beside TRL's kernel, plain cross-entropy with a float32 softmax of all
// logits, and one all in the type of the weights. Each in a process of its own with the same inputs, A B B A.
// A JSON line each: median seconds, GFLOP/s by 6 x tokens x width x vocabulary, memory beyond inputs and the
// head's gradient, loss and norms of the gradients.
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/variable.h>

#include "kernels/head/head.h"
#include "kernels/path.h"
#include "kernels/tensor_files.h"
#include "support/command.h"
#include "support/repeat.h"
#include "support/runs.h"
#include "support/scratch.h"
#include "tensor/threads/parallel.h"

namespace {

using namespace trl::bench;

struct Settings : PeerSettings {
  std::vector<int64_t> tokens = {512, 1024, 2048};
  int64_t vocab = 151936, width = 896;
  std::string precision = "bf16", peer;
  double seconds = 3;
};

constexpr const char* kUnfused = "libtrl_unfused";

at::ScalarType type_of(const std::string& precision) {
  return precision == "bf16" ? at::kBFloat16 : at::kFloat;
}

// What one process does.
Json run_head(const Json& work) {
  const int64_t rows = work.at("tokens"), width = work.at("width"), vocab = work.at("vocab");
  const std::string folder = work.at("folder");
  const at::ScalarType type = type_of(work.at("precision"));
  trl::tensor::set_threads(work.at("threads"));
  const at::Tensor hidden = read_tensor(folder + "/hidden", {rows, width}, at::kBFloat16).to(type);
  hidden.requires_grad_();
  const at::Tensor targets = read_tensor(folder + "/targets", {rows}, at::kInt);
  trl::kernels::Parameter head("lm_head.weight",
                               read_tensor(folder + "/head", {vocab, width}, at::kBFloat16).to(type));
  head.begin_training(at::zeros({vocab, width}, type));
  const trl::kernels::HeadTargets list = trl::kernels::head_targets(targets);
  const trl::kernels::TokenFormula nll{.scale = 1.0 / static_cast<double>(rows)};
  trl::kernels::HeadOptions options;
  options.compute = type;
  options.starts_backward = true;
  const trl::kernels::PathScope path(work.at("side") == kUnfused ? trl::kernels::Path::plain
                                                                 : trl::kernels::Path::fused);
  at::Tensor loss, d_hidden;
  const ExtraMemory extra;
  const std::vector<double> seconds = repeat(work.at("seconds"), [&] {
    head.gradient().zero_();
    d_hidden.reset();
    loss = trl::kernels::head_loss(hidden, head, list, nll, options);
    d_hidden = torch::autograd::grad({loss}, {hidden})[0];
  });
  return {{"seconds", seconds},
          {"workspace_bytes", extra.bytes()},
          {"loss", loss.item<float>()},
          {"grad_hidden", norm_of(d_hidden)},
          {"grad_head", norm_of(head.gradient())}};
}

Json line_of(const std::string& by, const Settings& s, int64_t tokens, const std::vector<Json>& runs) {
  std::vector<double> seconds;
  for (const Json& run : runs)
    for (const Json& value : run.at("seconds")) seconds.push_back(value.get<double>());
  Json line = {{"bench", "head"}, {"by", by}, {"precision", s.precision}, {"tokens", tokens}};
  line["seconds"] = median(seconds);
  line["gflops"] = std::round(6e-9 * static_cast<double>(tokens * s.width * s.vocab) / median(seconds));
  line["workspace_bytes"] = median_of(runs, "workspace_bytes");
  for (const char* key : {"loss", "grad_hidden", "grad_head"}) line[key] = runs.front().at(key);
  line["repeats"] = seconds.size();
  return line;
}

void measure(const Settings& s, const std::string& folder, int64_t tokens) {
  std::vector<std::string> sides = {"libtrl", kUnfused};
  if (!s.peer.empty()) sides.insert(sides.end(), {"trl", "plain_fp32_softmax", "plain"});
  std::vector<std::vector<Json>> runs(sides.size());
  interleave(sides.size(), s.rounds, [&](size_t i) {
    const Json work = {{"what", "head"},           {"side", sides[i]},     {"folder", folder},
                       {"tokens", tokens},         {"width", s.width},     {"vocab", s.vocab},
                       {"precision", s.precision}, {"threads", s.threads}, {"seconds", s.seconds}};
    runs[i].push_back(i < 2 ? run_json({"/proc/self/exe", kChildFlag, work.dump()})
                            : run_json({s.peer, TRL_KERNEL_PEER, work.dump()}));
  });
  double ours = 0;
  for (size_t i = 0; i < sides.size(); ++i) {
    Json line = line_of(sides[i], s, tokens, runs[i]);
    if (i == 0) ours = line["seconds"];
    if (i > 0) line["ratio"] = line["seconds"].get<double>() / ours;
    print(line);
  }
}

int run(int argc, char** argv) {
  Settings s;
  CLI::App app("The head with its loss, forward and backward");
  app.add_option("--tokens", s.tokens, "rows with a target")->check(CLI::Range(1, 1 << 20));
  app.add_option("--vocab", s.vocab, "rows of the head")->check(CLI::Range(2, 1 << 24));
  app.add_option("--width", s.width, "of hidden states")->check(CLI::Range(1, 1 << 16));
  app.add_option("--precision", s.precision, "bf16 or fp32")->check(CLI::IsMember({"bf16", "fp32"}));
  app.add_option("--peer", s.peer, "a Python that has trl");
  app.add_option("--seconds", s.seconds, "of a process")->check(CLI::PositiveNumber);
  s.add_to(app);
  CLI11_PARSE(app, argc, argv);
  if (!s.child.empty()) return print(run_head(Json::parse(s.child))), 0;
  const Scratch scratch(s.scratch);
  const int64_t rows = *std::max_element(s.tokens.begin(), s.tokens.end());
  write_tensor(scratch.file("hidden"), random_tensor({rows, s.width}, 1, 1.0));
  write_tensor(scratch.file("head"), random_tensor({s.vocab, s.width}, 2, 0.02));
  at::Generator generator = at::detail::createCPUGenerator(3);
  write_tensor(scratch.file("targets"), at::randint(s.vocab, {rows}, generator, at::kInt));
  for (const int64_t tokens : s.tokens) measure(s, scratch.file(""), tokens);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return run_bench("head_bench", [&] { return run(argc, argv); });
}
