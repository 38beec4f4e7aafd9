// Many requests of all kinds at once: none is lost, all blocks come back, and memory does not grow.
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <fstream>
#include <random>

#include "generate/completions.h"
#include "support/golden.h"
#include "tensor/counting_host.h"

namespace trl::generate {
namespace {

using test::Completion;

int64_t resident_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("VmRSS:")) return std::stoll(line.substr(6)) * 1024;
  return 0;
}

// Adapters that change every projection.
const model::Adapter& random_adapter(model::Model& model, const std::string& name, int64_t rank) {
  config::LoraConfig config;
  config.r = rank;
  model::Adapter& adapter = model.adapters().add(name, config, at::kFloat);
  adapter.start(static_cast<uint64_t>(rank));
  const at::NoGradGuard no_grad;
  for (model::Parameter* parameter : adapter.parameters()) parameter->write()->uniform_(-0.2, 0.2);
  return adapter;
}

// Adds requests, cancels some and goes on with others, in random order, while all are generated.
class Crowd final : public engine::GenerationSink {
 public:
  static constexpr int64_t kSpot = 37;  // one in so many requests is compared with itself alone

  Crowd(model::Model& model, const test::CountingHost& host, int64_t requests)
      : model_(model),
        host_(host),
        requests_(requests),
        adapters_{nullptr, &random_adapter(model, "a", 3), &random_adapter(model, "b", 5)},
        generator_(model, at::kFloat, {.blocks = 24, .step_tokens = 128, .step_sequences = 16}) {
    for (std::vector<int32_t>& ids : beginnings_) ids = some_ids(1 + random_() % 140);
  }

  void run() {
    int64_t peak = 0, first_peak = 0;
    [[maybe_unused]] int64_t first_resident = 0;
    while (added_ < requests_ || !lives_.empty()) {
      for (int64_t i = random_() % 4; i > 0 && added_ < requests_ && lives_.size() < 100; --i) add();
      if (random_() % 8 == 0) cancel(any_live());
      if (const int64_t any = any_live(); any >= 0 && lives_.at(any).waits) go_on_with(any);
      generator_.step(*this);
      peak = std::max(peak, host_.counter.now());
      if (first_peak > 0 || added_ < requests_ / 2) continue;
      first_peak = std::exchange(peak, 0);
      first_resident = resident_bytes();
    }
    EXPECT_TRUE(generator_.idle());
    EXPECT_EQ(generator_.use().blocks, 0);
    EXPECT_EQ(begun_, ended_ + cancelled_);
    EXPECT_GT(cancelled_, requests_ / 50);
    EXPECT_GT(continued_, requests_ / 50);
    EXPECT_LE(peak, first_peak);
#ifndef __SANITIZE_ADDRESS__  // which keeps what is freed for a while, and looks for leaks itself
    EXPECT_LE(resident_bytes(), first_resident + (int64_t{2} << 20));
#endif
  }
  void compare_spots() {
    for (const auto& [first, request] : spots_) {
      const std::vector<Completion> want = test::alone(model_, at::kFloat, request);
      for (int64_t c = 0; c < request.count; ++c)
        EXPECT_EQ(spot_completions_.all[first + c], want[static_cast<size_t>(c)]) << first + c;
    }
    EXPECT_GE(std::ssize(spots_), requests_ / kSpot);
  }

 private:
  struct Life {
    bool keeps, spot;
    bool waits = false;  // it ended and is kept
  };

  std::vector<int32_t> some_ids(int64_t count) {
    std::vector<int32_t> ids(static_cast<size_t>(count));
    for (int32_t& id : ids) id = static_cast<int32_t>(random_() % 400);
    return ids;
  }
  void add() {
    Request request;
    if (random_() % 2 == 0) request.ids = beginnings_[random_() % beginnings_.size()];
    const std::vector<int32_t> more = some_ids(1 + random_() % (random_() % 8 == 0 ? 300 : 40));
    request.ids.insert(request.ids.end(), more.begin(), more.end());
    request.sampling.temperature = random_() % 2 == 0 ? 0 : 0.9;
    request.sampling.max_new_tokens = 1 + random_() % (random_() % 8 == 0 ? 90 : 16);
    request.sampling.stop_ids = {static_cast<int32_t>(random_() % 400)};
    request.sampling.log_probabilities = random_() % 2 == 0;
    request.sampling.repetition_penalty = random_() % 4 == 0 ? 1.2 : 1;
    request.adapter = adapters_[random_() % adapters_.size()];
    request.count = random_() % 4 == 0 ? 2 + random_() % 5 : 1;
    request.stream = static_cast<uint64_t>(begun_);
    const bool spot = added_++ % kSpot == 0;
    request.keeps = !spot && random_() % 4 == 0;
    const int64_t first = generator_.add(request);
    for (int64_t s = first; s < first + request.count; ++s, ++begun_)
      EXPECT_TRUE(lives_.emplace(s, Life{.keeps = request.keeps, .spot = spot}).second);
    if (spot) spots_[first] = std::move(request);
  }
  // -1: there is none.
  int64_t any_live() {
    if (lives_.empty()) return -1;
    auto one = lives_.begin();
    std::advance(one, random_() % lives_.size());
    return one->first;
  }
  void cancel(int64_t sequence) {
    if (sequence < 0 || lives_.at(sequence).spot) return;
    cancelled_ += !lives_.at(sequence).waits;
    generator_.end(sequence);
    lives_.erase(sequence);
  }
  void go_on_with(int64_t sequence) {
    if (random_() % 2 == 0) return cancel(sequence);
    lives_.at(sequence).waits = false;
    generator_.extend(sequence, some_ids(1 + random_() % 20), 1 + random_() % 20);
    ++begun_, ++continued_;
  }

  bool on_token(int64_t sequence, const engine::Token& token) noexcept override {
    const auto life = lives_.find(sequence);
    EXPECT_TRUE(life != lives_.end() && !life->second.waits) << sequence;
    return life == lives_.end() || !life->second.spot || spot_completions_.on_token(sequence, token);
  }
  void on_end(int64_t sequence, engine::Finish how, std::string_view error) noexcept override {
    EXPECT_EQ(error, "");
    ++ended_;
    Life& life = lives_[sequence];
    life.waits = life.keeps;
    if (life.spot) spot_completions_.on_end(sequence, how, error);
    if (!life.keeps) lives_.erase(sequence);
  }

  model::Model& model_;
  const test::CountingHost& host_;
  const int64_t requests_;
  const std::vector<const model::Adapter*> adapters_;
  Generator generator_;
  std::mt19937 random_{11};
  std::array<std::vector<int32_t>, 5> beginnings_;
  std::map<int64_t, Life> lives_;  // those that are not over
  int64_t added_ = 0, begun_ = 0, ended_ = 0, cancelled_ = 0, continued_ = 0;
  std::map<int64_t, Request> spots_;  // by their first sequence
  test::Completions spot_completions_;
};

TEST(Stress, NoRequestIsLostAndMemoryDoesNotGrow) {
  TRL_NEED_GOLDEN("models/qwen2/config.json");
  const test::CountingHost& host = test::host();
  const char* const wanted = std::getenv("TRL_TEST_REQUESTS");
  const auto model = model::Model::open(test::golden_path("models/qwen2"), "float32");
  Crowd crowd(*model, host, wanted != nullptr ? std::stoll(wanted) : 500);
  crowd.run();
  crowd.compare_spots();
}

}  // namespace
}  // namespace trl::generate
