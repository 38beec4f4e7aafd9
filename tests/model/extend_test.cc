// Rows that continue sequences, of every family: prompts in chunks, several tokens at once and single ones,
// beside other sequences, against a forward of the whole sequence.
#include <gtest/gtest.h>

#include <ATen/core/grad_mode.h>

#include "model/golden_batch.h"
#include "model/model.h"
#include "support/seeded_model.h"

namespace trl::model {
namespace {

// A sequence, whose rows are computed in some calls. states: of the rows so far, [rows, hidden].
class Continued {
 public:
  Continued(const Model& model, at::ScalarType compute, std::vector<int32_t> ids)
      : ids_(std::move(ids)), memory_(model.kv_memory(compute)) {}

  // Adds its next rows, at most this many, to those of a call. All positions have the ropes of the whole
  // sequence.
  void add(int64_t rows, SequenceRows& call) {
    next_ = std::min(rows, left());
    if (next_ == 0) return;
    SequenceRows::Run run(next_, done_);
    run.reach = std::ssize(ids_);
    for (int32_t block = 0; block * kernels::kCacheRows < done_ + next_; ++block)
      run.blocks.push_back(memory_.block(block));
    call.runs.push_back(std::move(run));
    for (int64_t i = 0; i < next_; ++i) {
      call.wanted.push_back(std::ssize(call.ids));
      call.ids.push_back(ids_[static_cast<size_t>(done_ + i)]);
    }
  }
  // Takes its rows of the result from `begin` on.
  void take(const at::Tensor& hidden, int64_t& begin) {
    if (next_ > 0) states_.push_back(hidden.narrow(0, begin, next_));
    begin += next_;
    done_ += next_;
  }
  int64_t left() const { return std::ssize(ids_) - done_; }
  at::Tensor states() const { return at::cat(states_); }

 private:
  std::vector<int32_t> ids_;
  KvMemory memory_;
  int64_t done_ = 0, next_ = 0;
  std::vector<at::Tensor> states_;
};

// Computes all rows of some sequences; chunks[i]: how many rows of each have call i, over and over.
void compute(const Model& model, at::ScalarType type, const std::vector<std::vector<int64_t>>& chunks,
             std::vector<Continued>& sequences) {
  const auto goes_on = [](const Continued& one) { return one.left() > 0; };
  for (size_t call = 0; std::ranges::any_of(sequences, goes_on); ++call) {
    SequenceRows rows;
    for (size_t i = 0; i < sequences.size(); ++i) sequences[i].add(chunks[call % chunks.size()][i], rows);
    if (rows.ids.empty()) continue;
    const at::Tensor hidden = model.extend(rows, type).hidden;
    int64_t begin = 0;
    for (Continued& sequence : sequences) sequence.take(hidden, begin);
    ASSERT_EQ(begin, hidden.size(0));
  }
}

std::vector<int32_t> some_ids(int64_t count, int32_t step) {
  std::vector<int32_t> ids;
  for (int32_t i = 0; i < count; ++i) ids.push_back((i * step + i / 11) % 96);
  return ids;
}

class Extend : public testing::TestWithParam<std::string> {
 protected:
  Extend() : model_(Model::open(seeded_.directory.path(), "float32")) {}
  // Beyond all windows, and three blocks, unless positions are learned.
  int64_t length() const { return GetParam().starts_with("gpt2") ? 60 : 150; }
  at::Tensor alone(at::ScalarType type, const std::vector<int32_t>& ids,
                   const std::vector<std::vector<int64_t>>& chunks) const {
    std::vector<Continued> one;
    one.emplace_back(*model_, type, ids);
    compute(*model_, type, chunks, one);
    return one[0].states();
  }

  const test::SeededModel seeded_{GetParam()};
  const std::unique_ptr<Model> model_;
};

TEST_P(Extend, AgreesWithTheForwardOfTheWholeSequence) {
  const at::NoGradGuard no_grad;
  const std::vector<int32_t> ids = some_ids(length(), 7);
  for (const auto& [type, limit] : {std::pair{at::kFloat, 2e-5}, {at::kBFloat16, 5e-2}}) {
    ForwardOptions options;
    options.compute = type;
    const at::Tensor want = model_->forward(test::forward_input({ids}), options).hidden;
    const at::Tensor got = alone(type, ids, {{9}, {14}, {1}, {1}, {5}, {1}, {64}});
    EXPECT_EQ(got.scalar_type(), want.scalar_type());
    EXPECT_LE(test::used_limit(got, want, {limit, limit}), 1) << type;
  }
}

TEST_P(Extend, HasTheSameBitsInAnyChunksAndBesideAnyOthers) {
  const std::vector<int32_t> ids = some_ids(length(), 7), other = some_ids(length() - 9, 5);
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    const at::Tensor want = alone(type, ids, {{1000}}), beside = alone(type, other, {{1000}});
    EXPECT_TRUE(at::equal(alone(type, ids, {{1}}), want)) << type;
    EXPECT_TRUE(at::equal(alone(type, ids, {{63}, {2}, {1}}), want)) << type;
    std::vector<Continued> both;
    both.emplace_back(*model_, type, ids);
    both.emplace_back(*model_, type, other);
    compute(*model_, type, {{3, 40}, {0, 1}, {17, 0}, {1, 1}}, both);
    EXPECT_TRUE(at::equal(both[0].states(), want)) << type;
    EXPECT_TRUE(at::equal(both[1].states(), beside)) << type;
  }
}

INSTANTIATE_TEST_SUITE_P(Recorded, Extend, testing::ValuesIn(test::family_cases(false)),
                         [](const auto& instance) { return instance.param; });

}  // namespace
}  // namespace trl::model
