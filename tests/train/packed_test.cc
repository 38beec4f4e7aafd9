// Documents that share a row never see each other: loss and gradients of packed and of padding-free batches
// are the sums over the same documents alone.
#include "train/gradients.h"
#include "train/tiny_run.h"

namespace trl::train {
namespace {

using test::tiny_run;

// A document of a batch, as a batch of its own.
struct Alone {
  explicit Alone(const data::HostBatch& batch, size_t document) {
    const auto begin = batch.cu_seqlens[document], end = batch.cu_seqlens[document + 1];
    ids.assign(batch.input_ids.begin() + begin, batch.input_ids.begin() + end);
    labels.assign(batch.labels.begin() + begin, batch.labels.begin() + end);
    positions.resize(ids.size());
    std::iota(positions.begin(), positions.end(), 0);
    borders = {0, end - begin};
  }
  engine::Batch view() const {
    engine::Batch out;
    out.input_ids = ids.data();
    out.labels = labels.data();
    out.position_ids = positions.data();
    out.cu_seqlens = borders.data();
    out.tokens = static_cast<int64_t>(ids.size());
    out.documents = 1;
    return out;
  }
  std::vector<int32_t> ids, labels, positions, borders;
};

class Summed {
 public:
  Summed(const config::TrainingArguments& arguments, model::Model& model)
      : method_(make_method({arguments, model})),
        parameters_(model.parameters()),
        vocab_size_(model.config().vocab_size),
        gradients_(parameters_, std::nullopt) {
    gradients_.begin_step(Gradients::Copies::kept);
  }
  void add(const engine::Batch& batch, double items) {
    const at::AutoGradMode with_graph(true);
    const MicroBatch own = copy_batch(batch, vocab_size_);
    const at::Tensor share =
        method_->loss(own, {&own, 1}, {.items = items})->share(method_->forward(own, RunPosition{}), own);
    loss += static_cast<double>(*share.data_ptr<float>());
    if (share.requires_grad()) share.backward();
  }
  double items(const engine::Batch& batch) const {
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
  engine::Batch batch;
  ASSERT_TRUE(error.check(run.train_stream().next(&batch, error)));
  const data::HostBatch host = run.train_stream().last();
  ASSERT_GE(batch.documents, 20);
  std::optional<Summed> together(std::in_place, run.setup.arguments, run.model());
  const double items = together->items(batch);
  together->add(batch, items);
  const auto packed = together->gradients();
  const double loss = together->loss;
  together.reset();  // a model has one trainer at a time

  Summed alone(run.setup.arguments, run.model());
  for (size_t document = 0; document + 1 < host.cu_seqlens.size(); ++document)
    alone.add(Alone(host, document).view(), items);
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
  engine::Batch batch;
  ASSERT_TRUE(error.check(run.train_stream().next(&batch, error)));
  EXPECT_EQ(Summed(run.setup.arguments, run.model()).items(batch),
            static_cast<double>(batch.tokens - batch.documents));
}

}  // namespace
}  // namespace trl::train
