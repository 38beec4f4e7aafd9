// A scorer gives hidden states and their head, or log-probabilities, of the same model.
#include "train/scoring/scorer.h"
#include "support/error_of.h"
#include "train/tiny_run.h"

namespace trl::train::scorer_test {
namespace {

TEST(Scorer, HiddenStatesHaveTheHeadOfItsLogProbabilities) {
  TRL_NEED_TINY_RUN();
  test::SftRun run(test::tiny_config({{"method", "dpo"}}), test::golden_path("models/qwen2"),
                   test::golden_path("data/datasets/train_pref.jsonl"), {0, 7});
  const Causal causal(run.setup.arguments, run.model(), nullptr);
  const std::unique_ptr<Scorer> reference = make_reference(
      {.arguments = run.setup.arguments, .model = run.model(), .source = run.setup.source}, causal);
  Batches batches(*run.setup.train, run.model().config().vocab_size);
  const MicroBatch& batch = batches.fill_window(1).at(0);
  const auto [output, options] = reference->hidden(batch);
  EXPECT_FALSE(output.hidden.requires_grad());
  const at::Tensor logits =
      at::matmul(output.hidden, output.head.weight->read()->t()).log_softmax(-1).contiguous();
  const std::vector<float> log_probs = reference->log_probs(batch);
  ASSERT_EQ(std::ssize(log_probs), batch.targets.size());
  for (size_t i = 0; i < log_probs.size(); ++i) {
    const at::Tensor own = logits[batch.targets.tokens.rows[i]][batch.targets.tokens.tokens[i]];
    EXPECT_NEAR(static_cast<double>(log_probs[i]), own.item<double>(), 1e-4) << i;
  }
}

TEST(Scorer, RecordedValuesHaveNoHiddenStates) {
  TRL_NEED_TINY_RUN();
  const test::Scratch scratch;
  test::SftRun run(test::tiny_config({{"method", "dpo"},
                                      {"precompute_ref_log_probs", "true"},
                                      {"ref_logprobs_cache_dir", scratch.path().c_str()}}),
                   test::golden_path("models/qwen2"), test::golden_path("data/datasets/train_pref.jsonl"),
                   {0, 7});
  const Causal causal(run.setup.arguments, run.model(), nullptr);
  const std::unique_ptr<Scorer> reference = make_reference({.arguments = run.setup.arguments,
                                                            .model = run.model(),
                                                            .source = run.setup.source,
                                                            .train = run.setup.train},
                                                           causal);
  Batches batches(*run.setup.train, run.model().config().vocab_size);
  const MicroBatch& batch = batches.fill_window(1).at(0);
  EXPECT_EQ(test::error_of([&] { reference->hidden(batch); }).first, Status::internal);
  EXPECT_EQ(std::ssize(reference->log_probs(batch)), batch.targets.size());
}

}  // namespace
}  // namespace trl::train::scorer_test
