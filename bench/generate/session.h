// A generator, and all that it has passed on.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "generate/generator.h"
#include "tensor/parts.h"

namespace trl::bench {

// The blocks that sequences of this length take.
int64_t blocks_for(int64_t sequences, int64_t length);

class Session final : public engine::GenerationSink {
 public:
  Session(const model::Model& model, const generate::CacheKind& kind, int64_t blocks, bool prefix_cache);

  // Greedy; no id ends the text. Returns the first sequence of `count`.
  int64_t add(std::vector<int32_t> ids, int64_t new_tokens, int64_t count = 1);
  int64_t add(generate::Request request);
  bool step();  // throws what ended a sequence early
  void run_until_all_began();
  void run();
  void end_all_but(int64_t count);
  void fill_memory();  // writes every block that no sequence has
  void release_memory() { generator_.release_memory(); }
  void forget() { texts_.clear(); }  // those that are complete

  struct Text {
    std::vector<int32_t> ids;
    std::vector<double> times;
  };
  const std::map<int64_t, Text>& texts() const { return texts_; }  // by sequence, of those not ended by hand
  const generate::Generator& generator() const { return generator_; }
  const generate::Cache& cache() const { return *cache_; }

 private:
  bool on_token(int64_t sequence, const engine::Token& token) noexcept override;
  void on_end(int64_t sequence, engine::Finish how, std::string_view error) noexcept override;

  const std::shared_ptr<generate::Cache> cache_;
  generate::Generator generator_;
  std::map<int64_t, Text> texts_;
  int64_t waiting_ = 0;  // sequences without a token
  std::string error_;
};

// Steps of the sequences that a session has, all of them decoding.
struct Steps {
  std::vector<double> seconds;
  double context = 0;  // the mean number of positions that a row sees
  tensor::PartTimes parts;
};
Steps time_steps(Session& session, int64_t count);

}  // namespace trl::bench
