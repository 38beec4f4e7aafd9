// usage: extend_bench --model DIR [--type bf16|f32 ...] [--int8] [--sequences N ...] [--context N] [--prompt
// N] Steps of decoding without the choice of tokens: one row of each of N sequences with --context tokens
// through Model::extend and the head, and the seconds of a step that pass outside products, attention and
// parallel regions. Then a prompt by Model::extend beside the same tokens by Model::forward, by turns. JSON
// lines with medians.
#include "base/memory/memory.h"
#include "kernels/gemm/gemm.h"
#include "model/model.h"
#include "support/command.h"
#include "support/repeat.h"
#include "support/runs.h"
#include "tensor/parts.h"
#include "tensor/threads/parallel.h"

namespace {

using namespace trl::bench;
using trl::model::Model;
using trl::model::SequenceRows;
namespace kernels = trl::kernels;

struct Settings {
  std::string model;
  std::vector<std::string> types = {"bf16"};
  std::vector<int64_t> sequences = {1, 8, 32};
  int64_t context = 512, prompt = 1024;
  bool int8 = false;
  int threads = 2, rounds = 5;
  double seconds = 2;
};

// Sequences with blocks of their own.
class Sequences {
 public:
  Sequences(const Model& model, at::ScalarType type, bool int8, int64_t count, int64_t most)
      : memory_(model.kv_memory(type, int8)) {
    const int64_t blocks = (most + kernels::kCacheRows - 1) / kernels::kCacheRows;
    int32_t id = 0;
    for (int64_t i = 0; i < count; ++i) {
      blocks_.emplace_back();
      for (int64_t b = 0; b < blocks; ++b) blocks_.back().push_back(memory_.block(id++).fill_(0x3c));
    }
  }
  // The next `count` rows of each sequence from `position` on; the last one's hidden state is wanted.
  SequenceRows rows(int64_t count, int64_t position) const {
    SequenceRows rows;
    for (const std::vector<at::Tensor>& blocks : blocks_) {
      for (int64_t i = 0; i < count; ++i)
        rows.ids.push_back(static_cast<int32_t>((17 * rows.ids.size() + 3) % 997));
      rows.runs.emplace_back(count, position).blocks = blocks;
      rows.wanted.push_back(std::ssize(rows.ids) - 1);
    }
    rows.int8 = memory_.int8();
    return rows;
  }

 private:
  trl::model::KvMemory memory_;
  std::vector<std::vector<at::Tensor>> blocks_;
};

void measure_steps(const Settings& s, const Model& model, at::ScalarType type, int64_t count) {
  const Sequences sequences(model, type, s.int8, count, s.context + 1);
  trl::tensor::PartTimes times;
  double all = 0;
  std::vector<double> seconds;
  const auto step = [&] {
    const kernels::IndependentRows independent;
    return model.logits(model.extend(sequences.rows(1, s.context), type), type);
  };
  step();
  {
    const trl::tensor::TimeParts timed(&times);
    seconds = repeat(s.seconds, [&] {
      const double begin = now();
      step();
      all += now() - begin;
    });
  }
  Json line = {{"bench", "extend"}, {"sequences", count}, {"context", s.context}, {"int8", s.int8}};
  line["type"] = type == at::kFloat ? "f32" : "bf16";
  line["seconds"] = median(seconds);
  line["tokens_per_second"] = static_cast<double>(count) / median(seconds);
  double inside = 0;
  using trl::tensor::Part;
  for (const auto& [name, part] : {std::pair{"products", Part::gemm},
                                   {"attention", Part::attention},
                                   {"elementwise", Part::elementwise},
                                   {"head", Part::head}}) {
    line[name] = times.seconds(part) / all;
    inside += times.seconds(part);
  }
  line["outside"] = 1 - inside / all;
  print(line);
}

void measure_prompt(const Settings& s, const Model& model, at::ScalarType type) {
  const Sequences sequences(model, type, s.int8, 1, s.prompt);
  const SequenceRows rows = sequences.rows(s.prompt, 0);
  const auto segments =
      std::make_shared<kernels::Segments>(kernels::Segments{{0, static_cast<int32_t>(s.prompt)}, s.prompt});
  const trl::model::ForwardInput input{at::tensor(rows.ids, at::kInt), at::arange(s.prompt, at::kInt),
                                       segments};
  std::vector<double> extended, forward;
  for (int round = 0; round < s.rounds + 1; ++round) {
    double begin = now();
    model.extend(rows, type);
    extended.push_back(now() - begin);
    begin = now();
    model.forward(input, {.compute = type});
    forward.push_back(now() - begin);
  }
  extended.erase(extended.begin());
  forward.erase(forward.begin());
  print({{"bench", "prompt"},
         {"type", type == at::kFloat ? "f32" : "bf16"},
         {"int8", s.int8},
         {"tokens", s.prompt},
         {"extend_seconds", median(extended)},
         {"forward_seconds", median(forward)},
         {"ratio", median(extended) / median(forward)}});
}

int run(int argc, char** argv) {
  Settings s;
  CLI::App app("steps of decoding, and prompts");
  app.add_option("--model", s.model, "a directory")->required();
  app.add_option("--type", s.types)->check(CLI::IsMember({"bf16", "f32"}));
  app.add_flag("--int8", s.int8, "keys and values as integers");
  app.add_option("--sequences", s.sequences)->check(CLI::PositiveNumber);
  app.add_option("--context", s.context)->check(CLI::PositiveNumber);
  app.add_option("--prompt", s.prompt, "tokens")->check(CLI::PositiveNumber);
  app.add_option("--rounds", s.rounds, "of prompts")->check(CLI::PositiveNumber);
  app.add_option("--threads", s.threads)->check(CLI::PositiveNumber);
  app.add_option("--seconds", s.seconds, "of steps")->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);
  trl::tensor::set_threads(s.threads);
  const at::NoGradGuard no_grad;
  for (const std::string& name : s.types) {
    const at::ScalarType type = name == "f32" ? at::kFloat : at::kBFloat16;
    const auto model = Model::open(s.model, type == at::kFloat ? "float32" : "bfloat16");
    for (const int64_t count : s.sequences) measure_steps(s, *model, type, count);
    measure_prompt(s, *model, type);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return run_bench("extend_bench", [&] { return run(argc, argv); });
}
