// Documents that share a row never see each other: loss and gradients of packed and of padding-free batches
// are the sums over the same documents alone.
#include "train/stepper/gradients.h"
#include "train/tiny_run.h"

namespace trl::train {
namespace {

using test::tiny_run;

// Returns a document of a batch as a batch of its own.
data::Batch document_of(const data::Batch& batch, size_t document) {
  const auto begin = batch.cu_seqlens[document], end = batch.cu_seqlens[document + 1];
  data::Batch out;
  out.input_ids.assign(batch.input_ids.begin() + begin, batch.input_ids.begin() + end);
  out.labels.assign(batch.labels.begin() + begin, batch.labels.begin() + end);
  out.position_ids.resize(out.input_ids.size());
  std::iota(out.position_ids.begin(), out.position_ids.end(), 0);
  out.cu_seqlens = {0, end - begin};
  return out;
}

class Summed {
 public:
  Summed(const config::TrainingArguments& arguments, model::Model& model)
      : method_(make_method({arguments, model})),
        parameters_(model.parameters()),
        vocab_size_(model.config().vocab_size),
        gradients_(parameters_, std::nullopt) {
    gradients_.begin_step(Gradients::Copies::kept);
  }
  void add(const data::Batch& batch, double items) {
    const at::AutoGradMode with_graph(true);
    const MicroBatch own = copy_batch(batch, vocab_size_);
    method_->loss(own, {&own, 1}, {.items = items})
        ->each_part(
            {&own, 1}, [&](const MicroBatch& part) { return method_->forward(part, RunPosition{}); },
            [&](const Share& share, bool) {
              loss += static_cast<double>(share.value);
              if (share.graph.defined() && share.graph.requires_grad()) share.graph.backward();
              return true;
            });
  }
  double items(const data::Batch& batch) const {
    const MicroBatch own = copy_batch(batch, vocab_size_);
    return method_->divisors({&own, 1}, true).items;
  }
  std::vector<at::Tensor> gradients() const {
    std::vector<at::Tensor> out;
    for (const tensor::Parameter* p : parameters_) out.push_back(p->gradient().clone());
    return out;
  }
  double loss = 0;

 private:
  const std::unique_ptr<Method> method_;
  const std::vector<tensor::Parameter*> parameters_;
  const int64_t vocab_size_;
  Gradients gradients_;
};

void expect_no_contamination(const test::Settings& settings) {
  test::SftRun run = tiny_run(settings, {0, 23});
  engine::ErrorCapture error;
  ASSERT_TRUE(error.check(run.train_stream().start_epoch(0, 0, {}, error)));
  const data::Batch* next = nullptr;
  ASSERT_TRUE(error.check(run.train_stream().next(&next, error)));
  const data::Batch& batch = *next;
  ASSERT_GE(batch.segments(), 20);
  std::optional<Summed> together(std::in_place, run.setup.arguments, run.model());
  const double items = together->items(batch);
  together->add(batch, items);
  const auto packed = together->gradients();
  const double loss = together->loss;
  together.reset();  // a model has one trainer at a time

  Summed alone(run.setup.arguments, run.model());
  for (size_t document = 0; document + 1 < batch.cu_seqlens.size(); ++document)
    alone.add(document_of(batch, document), items);
  EXPECT_NEAR(loss, alone.loss, 1e-6 * std::abs(alone.loss));
  const auto single = alone.gradients();
  ASSERT_EQ(packed.size(), single.size());
  for (size_t i = 0; i < packed.size(); ++i) {
    const double largest = single[i].abs().max().item<double>();
    EXPECT_GT(largest, 0);
    EXPECT_LE((packed[i] - single[i]).abs().max().item<double>(), 1e-7 + 1e-5 * largest) << i;
  }
}

TEST(Packed, DocumentsOfPackedRowsAreAlone) {
  TRL_NEED_TINY_RUN();
  for (const char* strategy : {"bfd", "bfd_split"}) {
    expect_no_contamination({{"packing", "true"},
                             {"packing_strategy", strategy},
                             {"max_length", "64"},
                             {"per_device_train_batch_size", "64"}});
  }
}

TEST(Packed, DocumentsOfPaddingFreeBatchesAreAlone) {
  TRL_NEED_TINY_RUN();
  expect_no_contamination(
      {{"padding_free", "true"}, {"max_length", "null"}, {"per_device_train_batch_size", "64"}});
}

// What the first token of each document would train is not trained, and only that.
TEST(Packed, LossCountsEveryTokenButTheFirstOfEachDocument) {
  TRL_NEED_TINY_RUN();
  test::SftRun run =
      tiny_run({{"packing", "true"}, {"max_length", "64"}, {"per_device_train_batch_size", "64"}});
  engine::ErrorCapture error;
  ASSERT_TRUE(error.check(run.train_stream().start_epoch(0, 0, {}, error)));
  const data::Batch* batch = nullptr;
  ASSERT_TRUE(error.check(run.train_stream().next(&batch, error)));
  EXPECT_EQ(Summed(run.setup.arguments, run.model()).items(*batch),
            static_cast<double>(batch->tokens() - batch->segments()));
}

}  // namespace
}  // namespace trl::train
