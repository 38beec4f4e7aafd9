#include "kernels/probe.h"

#include <chrono>
#include <mutex>

#include "kernels/gemm/gemm.h"
#include "kernels/op.h"
#include "tensor/process_state.h"

namespace trl::kernels {

namespace {

using tensor::Job;
using tensor::Work;
using Clock = std::chrono::steady_clock;

constexpr double kBudget = 0.25;  // seconds
constexpr double kTimed = 0.9;  // share of the products' operations after which the rest has their mean speed
constexpr double kOperations = 1e9;  // operations of one timed product, roughly
constexpr int64_t kLeastRows = 128, kLeastColumns = 1024;

double operations(const Work& work) {
  return 2.0 * static_cast<double>(work.rows) * static_cast<double>(work.columns) *
         static_cast<double>(work.depth);
}

at::Tensor matrix(int64_t rows, int64_t columns, int64_t bytes) {
  return tensor::zeros({rows, columns}, bytes == 2 ? at::kBFloat16 : at::kFloat, MemoryKind::workspace);
}

// The better time of two runs, after a first one that builds cached state.
template <typename Body>
double seconds_of(const Body& body) {
  body();
  double best = 1e300;
  for (int i = 0; i < 2; ++i) {
    const auto begin = Clock::now();
    body();
    best = std::min(best, std::chrono::duration<double>(Clock::now() - begin).count());
  }
  return best;
}

// The work with fewer columns and tokens, the same numbers for all batches that have at least those: its
// speed hardly depends on these.
Work smaller(Work work) {
  work.columns = std::min(work.columns, kLeastColumns);
  int64_t& tokens = work.transposed ? work.depth : work.rows;
  const int64_t all = tokens;
  tokens = kLeastRows;
  while (2 * operations(work) <= kOperations) tokens *= 2;
  tokens = std::min(tokens, all);
  return work;
}

// The representative of the work: products in any stage that are timed as one.
Work alike(Work work) {
  work.stage = {};
  return work.job == Job::attention ? work : smaller(work);
}

double operations_per_second(const Work& work) {
  const at::Tensor a =
      work.transposed ? matrix(work.depth, work.rows, work.bytes) : matrix(work.rows, work.depth, work.bytes);
  const at::Tensor b = matrix(work.depth, work.columns, work.bytes);
  at::Tensor c = matrix(work.rows, work.columns, work.bytes);
  return operations(work) / seconds_of([&] { gemm(a, work.transposed, b, false, c); });
}

double attention_per_second(const Work& work) {
  constexpr int64_t kTokens = 512, kHeads = 4;
  const at::NoGradGuard no_grad;
  const auto type = work.bytes == 2 ? at::kBFloat16 : at::kFloat;
  const at::Tensor q = tensor::zeros({kTokens, kHeads, work.columns > 0 ? work.columns : work.depth}, type,
                                     MemoryKind::workspace);
  const auto segments =
      std::make_shared<const Segments>(Segments{{0, static_cast<int32_t>(kTokens)}, kTokens});
  AttentionOptions options;
  options.scale = 1;
  const double flops = 2.0 * kTokens * kTokens * kHeads * static_cast<double>(q.size(2));
  return flops / seconds_of([&] { kernels::attention(q, q, q, segments, options); });
}

double memory_per_second() {
  for (int64_t rows = 4096;; rows /= 2) try {
      const at::Tensor x = matrix(rows, 2048, 4);
      const double bytes = 3.0 * static_cast<double>(x.nbytes());
      return bytes / seconds_of([&] { kernels::add(x, x, 1.0); });
    } catch (const Error& error) {  // a limit that leaves less memory
      if (error.status() != Status::out_of_memory || rows <= kLeastRows) throw;
    }
}

double flops_of(const Work& work, double times) {
  return work.job == Job::attention ? times : operations(work) * times;
}

}  // namespace

namespace {

// Speeds that were timed before, in operations per second; without stages.
struct Known {
  std::mutex mutex;
  std::map<Work, double> rates;
  double memory = 0;
};

}  // namespace

Speed probe(const std::map<Work, double>& work) {
  auto& known = tensor::process_state<Known>();
  const std::lock_guard lock(known.mutex);
  const at::NoGradGuard no_grad;
  const auto begin = Clock::now();
  std::vector<std::pair<Work, double>> all;
  for (const auto& [key, times] : work)
    if (flops_of(key, times) > 0) all.emplace_back(key, flops_of(key, times));
  std::ranges::sort(all, [](const auto& a, const auto& b) { return a.second > b.second; });
  double products = 0, timed = 0, timed_seconds = 0;
  for (const auto& [key, flops] : all) products += key.job == Job::attention ? 0 : flops;
  Speed speed;
  if (known.memory == 0) known.memory = memory_per_second();
  speed.bytes_per_second = known.memory;
  for (const auto& [key, flops] : all) {
    const Work bare = alike(key);
    const auto found = known.rates.find(bare);
    double rate = found != known.rates.end() ? found->second : 0;
    if (rate == 0) {
      rate = timed_seconds > 0 ? timed / timed_seconds : 0;
      const bool left =
          timed < kTimed * products && std::chrono::duration<double>(Clock::now() - begin).count() < kBudget;
      if (left || rate == 0 || bare.job == Job::attention) {
        rate = bare.job == Job::attention ? attention_per_second(bare) : operations_per_second(bare);
        known.rates.emplace(bare, rate);
      }
    }
    if (key.job != Job::attention) {
      timed += flops;
      timed_seconds += flops / rate;
    }
    speed.seconds += flops / rate;
  }
  tensor::trim();
  return speed;
}

}  // namespace trl::kernels
