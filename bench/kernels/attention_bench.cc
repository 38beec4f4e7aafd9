// usage: attention_bench [--tokens N ...] [--heads Q/KV ...] [--dropout P] [--peer PYTHON]
// Causal attention over one document in bfloat16, forward and backward; with --peer beside PyTorch's
// scaled_dot_product_attention (the faster of enable_gqa and repeated keys), in a process of its own with the
// same inputs, A B B A. A JSON line each: median seconds, GFLOP/s by 7 x heads x head_dim x tokens^2, norms
// of the result and of the gradients.
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/variable.h>

#include "kernels/kernels.h"
#include "kernels/tensor_files.h"
#include "support/command.h"
#include "support/repeat.h"
#include "support/runs.h"
#include "support/scratch.h"
#include "tensor/threads/parallel.h"

namespace {

using namespace trl::bench;

struct Heads {
  int64_t q = 0, kv = 0;
};

struct Settings : PeerSettings {
  std::vector<int64_t> tokens = {2048};
  std::vector<std::string> heads = {"9/3", "14/2"};
  int64_t head_dim = 64;
  double dropout = 0;
  std::string peer;
  double seconds = 3;
};

Heads heads_of(const std::string& text) {
  Heads heads;
  char after = 0;
  if (std::sscanf(text.c_str(), "%ld/%ld%c", &heads.q, &heads.kv, &after) != 2 || heads.kv < 1 ||
      heads.q < heads.kv || heads.q % heads.kv != 0)
    throw std::runtime_error("--heads: " + text + " is not query/key heads, such as 9/3");
  return heads;
}

Json run_attention(const Json& work) {
  const int64_t tokens = work.at("tokens"), width = work.at("head_dim");
  const std::string folder = work.at("folder");
  trl::tensor::set_threads(work.at("threads"));
  const auto input = [&](const char* name, const char* heads) {
    return read_tensor(folder + "/" + name, {tokens, work.at(heads).get<int64_t>(), width}, at::kBFloat16);
  };
  const at::Tensor q = input("q", "heads").requires_grad_(), k = input("k", "kv_heads").requires_grad_();
  const at::Tensor v = input("v", "kv_heads").requires_grad_(), d_out = input("d_out", "heads");
  const auto segments = std::make_shared<trl::kernels::Segments>(
      trl::kernels::Segments{{0, static_cast<int32_t>(tokens)}, tokens});
  trl::kernels::AttentionOptions options{1.0 / std::sqrt(static_cast<double>(width)), 0};
  options.dropout = {work.at("dropout"), 1};
  at::Tensor out;
  torch::autograd::variable_list grads;
  const std::vector<double> seconds = repeat(work.at("seconds"), [&] {
    out = trl::kernels::attention(q, k, v, segments, options);
    grads = torch::autograd::grad({out}, {q, k, v}, {d_out});
  });
  return {{"seconds", seconds},
          {"out", norm_of(out)},
          {"dq", norm_of(grads[0])},
          {"dk", norm_of(grads[1])},
          {"dv", norm_of(grads[2])}};
}

Json line_of(const std::string& by, const Json& work, const std::vector<Json>& runs) {
  std::vector<double> seconds;
  for (const Json& run : runs)
    for (const Json& value : run.at("seconds")) seconds.push_back(value.get<double>());
  const double tokens = work.at("tokens"),
               width = work.at("heads").get<double>() * work.at("head_dim").get<double>();
  Json line = {{"bench", "attention"}, {"by", by}};
  for (const char* key : {"tokens", "heads", "kv_heads", "head_dim", "dropout"}) line[key] = work.at(key);
  line["seconds"] = median(seconds);
  line["gflops"] = std::round(7e-9 * width * tokens * tokens / median(seconds));
  for (const char* key : {"out", "dq", "dk", "dv"}) line[key] = runs.front().at(key);
  line["repeats"] = seconds.size();
  return line;
}

void measure(const Settings& s, const std::string& folder, const Heads& heads, int64_t tokens) {
  const Json work = {{"what", "attention"},  {"folder", folder},     {"tokens", tokens},
                     {"heads", heads.q},     {"kv_heads", heads.kv}, {"head_dim", s.head_dim},
                     {"dropout", s.dropout}, {"threads", s.threads}, {"seconds", s.seconds}};
  std::vector<std::vector<Json>> runs(s.peer.empty() ? 1 : 2);
  interleave(runs.size(), s.rounds, [&](size_t i) {
    runs[i].push_back(i == 0 ? run_json({"/proc/self/exe", kChildFlag, work.dump()})
                             : run_json({s.peer, TRL_KERNEL_PEER, work.dump()}));
  });
  const Json ours = line_of("libtrl", work, runs[0]);
  print(ours);
  if (s.peer.empty()) return;
  Json line = line_of(runs[1].front().at("by"), work, runs[1]);
  line["ratio"] = line["seconds"].get<double>() / ours["seconds"].get<double>();
  print(line);
}

int run(int argc, char** argv) {
  Settings s;
  bool curve = false;
  CLI::App app("Causal attention, forward and backward");
  app.add_option("--tokens", s.tokens, "of the document")->check(CLI::Range(1, 1 << 20));
  app.add_flag("--curve", curve, "tokens 512, 1024 ... 16384");
  app.add_option("--heads", s.heads, "query heads / key heads");
  app.add_option("--head-dim", s.head_dim, "of each head")->check(CLI::Range(1, 512));
  app.add_option("--dropout", s.dropout, "rate, of the weights")->check(CLI::Range(0.0, 1.0));
  app.add_option("--peer", s.peer, "a Python that has torch");
  app.add_option("--seconds", s.seconds, "of a process")->check(CLI::PositiveNumber);
  s.add_to(app);
  CLI11_PARSE(app, argc, argv);
  if (!s.child.empty()) return print(run_attention(Json::parse(s.child))), 0;
  if (curve) s.tokens = {512, 1024, 2048, 4096, 8192, 16384};
  const Scratch scratch(s.scratch);
  const int64_t rows = *std::max_element(s.tokens.begin(), s.tokens.end());
  for (const std::string& text : s.heads) {
    const Heads heads = heads_of(text);
    write_tensor(scratch.file("q"), random_tensor({rows, heads.q, s.head_dim}, 1, 1.0));
    write_tensor(scratch.file("k"), random_tensor({rows, heads.kv, s.head_dim}, 2, 1.0));
    write_tensor(scratch.file("v"), random_tensor({rows, heads.kv, s.head_dim}, 3, 1.0));
    write_tensor(scratch.file("d_out"), random_tensor({rows, heads.q, s.head_dim}, 4, 1.0));
    for (const int64_t tokens : s.tokens) measure(s, scratch.file(""), heads, tokens);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return run_bench("attention_bench", [&] { return run(argc, argv); });
}
