// usage: cached_attention_bench [--heads Q/KV ...] [--sequences N ...] [--context N ...] [--type
// bf16|f32|int8 ...] Attention of one new row of each sequence over its cached keys and values, as decoding
// computes it, in as many layers as make the cache larger than the processor's. A JSON line each: median
// seconds of a layer, the bytes of keys and values a second, and their share of the bandwidth with which all
// threads read memory, which is measured between the runs.
#include <numeric>

#include "kernels/attention/cached_rows.h"
#include "model/decoding/kv_memory.h"
#include "support/command.h"
#include "support/repeat.h"
#include "support/runs.h"
#include "tensor/memory/counted.h"
#include "tensor/threads/parallel.h"

namespace {

using namespace trl::bench;
namespace kernels = trl::kernels;

struct Settings {
  std::vector<std::string> heads = {"9/3", "14/2", "32/8"}, types = {"bf16", "f32", "int8"};
  std::vector<int64_t> sequences = {1, 8, 32}, context = {512, 4096};
  int64_t head_dim = 64, shared = 0;
  int threads = 2;
  double seconds = 0.3;
};

// Bytes a second of plain reads by all threads.
class Reads {
 public:
  Reads() : memory_(trl::tensor::zeros({kWords}, at::kLong, trl::tensor::MemoryKind::workspace).fill_(1)) {}
  double rate() {
    const double seconds = best_seconds(0.1, [&] {
      trl::tensor::parallel_for(kWords, 1, [&](int64_t begin, int64_t end) {
        const int64_t* const words = memory_.data_ptr<int64_t>();
        int64_t sums[8] = {};
        for (int64_t i = begin; i + 8 <= end; i += 8)
          for (int64_t s = 0; s < 8; ++s) sums[s] += words[i + s];
        sink_ += std::accumulate(sums, sums + 8, int64_t{0});
      });
    });
    return 8 * static_cast<double>(kWords) / seconds;
  }

 private:
  static constexpr int64_t kWords = int64_t{64} << 20;
  at::Tensor memory_;
  std::atomic<int64_t> sink_{0};
};

struct Case {
  int64_t q, kv, width, sequences, context;
  std::string type;  // of keys and values; beside int8 the computation is in bf16

  kernels::CacheShape shape() const {
    return {kv, width, type == "f32" ? at::kFloat : at::kBFloat16, type == "int8"};
  }
  double bytes() const {
    const double element = type == "f32" ? 4 : type == "bf16" ? 2 : 1 + 4.0 / static_cast<double>(width);
    return 2 * element * static_cast<double>(sequences * kv * context * width);
  }
};

// The blocks of all sequences, in as many layers as are larger than the processor's cache.
class Cache {
 public:
  Cache(const Case& c, int64_t shared)
      : layers_(std::clamp<int64_t>(static_cast<int64_t>(0x1p29 / c.bytes()), 1, 64)),
        memory_(layers_, c.shape(), at::kCPU) {
    const int64_t blocks = c.context / kernels::kCacheRows + 1;
    int32_t id = 0;
    for (int64_t i = 0; i < c.sequences; ++i) {
      std::vector<at::Tensor>& own = blocks_.emplace_back();
      for (int64_t block = 0; block < blocks; ++block) {
        const bool others = i > 0 && block < shared / kernels::kCacheRows;
        own.push_back(others ? blocks_[0][static_cast<size_t>(block)] : memory_.block(id++).fill_(0x3c));
      }
    }
    std::vector<kernels::CachedRun> runs;
    for (int64_t i = 0; i < c.sequences; ++i)
      runs.push_back({i, 1, c.context, blocks_[static_cast<size_t>(i)]});
    rows_.emplace(runs, c.q, c.shape(), at::kCPU);
  }
  int64_t layers() const { return layers_; }
  const kernels::CachedRows& rows() const { return *rows_; }

 private:
  int64_t layers_;
  trl::model::KvMemory memory_;
  std::vector<std::vector<at::Tensor>> blocks_;
  std::optional<kernels::CachedRows> rows_;
};

void measure(const Case& c, int64_t shared, Reads& reads, double seconds) {
  const Cache cache(c, shared);
  const at::Tensor q = at::randn({c.sequences, c.q, c.width}).to(c.shape().compute);
  const at::Tensor k = at::randn({c.sequences, c.kv, c.width}).to(c.shape().compute), v = at::randn_like(k);
  const kernels::AttentionOptions options{1.0 / std::sqrt(static_cast<double>(c.width)), 0};
  const double before = reads.rate();
  const double taken = median(repeat(seconds,
                                     [&] {
                                       for (int64_t layer = 0; layer < cache.layers(); ++layer)
                                         kernels::cached_attention(q, k, v, cache.rows(), layer, options);
                                     })) /
                       static_cast<double>(cache.layers());
  const double bandwidth = std::max(before, reads.rate());
  print({{"bench", "cached_attention"},
         {"heads", c.q},
         {"kv_heads", c.kv},
         {"sequences", c.sequences},
         {"context", c.context},
         {"shared", shared},
         {"type", c.type},
         {"layers", cache.layers()},
         {"seconds", taken},
         {"bytes_per_second", c.bytes() / taken},
         {"read_bytes_per_second", bandwidth},
         {"share", c.bytes() / taken / bandwidth}});
}

int run(int argc, char** argv) {
  Settings s;
  CLI::App app("attention over cached keys and values");
  app.add_option("--heads", s.heads);
  app.add_option("--type", s.types)->check(CLI::IsMember({"bf16", "f32", "int8"}));
  app.add_option("--sequences", s.sequences)->check(CLI::PositiveNumber);
  app.add_option("--context", s.context)->check(CLI::PositiveNumber);
  app.add_option("--shared", s.shared, "tokens with which all sequences begin");
  app.add_option("--head-dim", s.head_dim)->check(CLI::PositiveNumber);
  app.add_option("--threads", s.threads)->check(CLI::PositiveNumber);
  app.add_option("--seconds", s.seconds)->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);
  trl::tensor::set_threads(s.threads);
  const at::NoGradGuard no_grad;
  Reads reads;
  for (const std::string& heads : s.heads) {
    Case c{};
    if (std::sscanf(heads.c_str(), "%ld/%ld", &c.q, &c.kv) != 2 || c.kv < 1 || c.q % c.kv != 0)
      throw std::runtime_error("--heads: " + heads + " is not query/key heads, such as 9/3");
    c.width = s.head_dim;
    for (const std::string& type : s.types)
      for (const int64_t context : s.context)
        for (const int64_t sequences : s.sequences) {
          c.type = type;
          c.sequences = sequences;
          c.context = context;
          measure(c, s.shared, reads, s.seconds);
        }
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return run_bench("cached_attention_bench", [&] { return run(argc, argv); });
}
