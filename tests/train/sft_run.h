// An SFT run over the engine's rooms, from a configuration and the rows of a file: what capi/ and entry/ put
// together.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/log.h"
#include "config/config.h"
#include "config/model_options.h"
#include "data/batch/batch_stream.h"
#include "data/batch/preference_batches.h"
#include "data/source/source.h"
#include "data/tokenizer/open_tokenizer.h"
#include "engine/batch_source.h"
#include "engine/host.h"
#include "model/model.h"
#include "support/golden.h"
#include "tensor/counting_host.h"
#include "train/trainer/trainer.h"

namespace trl::test {

// The memory counter that the engine's tensors are charged to in these tests.
inline base::MemoryCounter& memory() { return host().counter; }

// Batches of a data::BatchStream. fail_at: the call of next() (from 0) that answers with an error, once.
class Stream final : public engine::BatchSource {
 public:
  explicit Stream(std::unique_ptr<data::BatchStream> stream) : stream_(std::move(stream)) {}
  int64_t batches_per_epoch() noexcept override { return stream_->batches_per_epoch(); }
  int64_t rows() noexcept override { return stream_->rows(); }
  uint64_t fingerprint() noexcept override { return stream_->fingerprint(); }
  int32_t start_epoch(int64_t epoch, int64_t skip, std::span<const int64_t> evaluations_before,
                      engine::ErrorSink&) noexcept override {
    in_pass_ = false;
    stream_->start_epoch(epoch, skip, evaluations_before);
    return 0;
  }
  int32_t start_pass(int64_t batch_size, engine::ErrorSink&) noexcept override {
    in_pass_ = true;
    stream_->start_pass(batch_size);
    return 0;
  }
  int32_t next(const data::Batch** out, engine::ErrorSink& error) noexcept override {
    if (calls_++ == fail_at) {
      error.set({Status::callback, "the host's row failed", "", 77});
      return static_cast<int32_t>(Status::callback);
    }
    if (!stream_->next(batch_)) return 1;
    if (!in_pass_) order.push_back(batch_.row_ids);
    *out = &batch_;
    return 0;
  }
  int64_t fail_at = -1;
  std::vector<std::vector<int64_t>> order;  // of every batch given in an epoch

 private:
  const std::unique_ptr<data::BatchStream> stream_;
  data::Batch batch_;
  int64_t calls_ = 0;
  bool in_pass_ = false;
};

// Rows first ... last of a JSONL file.
inline std::unique_ptr<data::Source> row_range(const std::string& path, int64_t first, int64_t last) {
  auto file = std::shared_ptr<data::Source>(data::open_file_source(path));
  auto at = std::make_shared<int64_t>(0);
  return data::open_callback_source({[=](base::Json& out) {
                                       for (data::Row row; *at <= last && file->next(row);) {
                                         if ((*at)++ < first) continue;
                                         out = std::move(row.value);
                                         return true;
                                       }
                                       return false;
                                     },
                                     [=] {
                                       file->rewind();
                                       *at = 0;
                                     }});
}

struct Rows {
  int64_t first, last;
};

class SftRun {
 public:
  // rows of `dataset`; eval_rows: of the same file, or none
  SftRun(const config::Config& config, const io::ModelSource& source, const std::string& dataset, Rows rows,
         std::optional<Rows> eval_rows = {})
      : arguments_(config::data_arguments(config)),
        memory_(memory()),
        pool_(1),
        tokenizer_(data::training_tokenizer(*data::open_tokenizer(source), arguments_)),
        model_(model::Model::open(source, config.get("dtype"), nullptr, at::kCPU,
                                  config.method().scores() ? model::Head::reward : model::Head::language,
                                  config::quantization(config),
                                  static_cast<uint64_t>(config.get_int("seed")))) {
    setup.arguments = config::training_arguments(config);
    context_.tokenizer = tokenizer_.get();
    context_.arguments = &arguments_;
    context_.log = &log_;
    context_.pool = &pool_;
    context_.memory = &memory_;
    context_.packing = arguments_.packing;
    train_ = stream(dataset, rows, data::train_order(setup.arguments, arguments_));
    if (eval_rows) {
      context_.packing = arguments_.eval_packing;
      eval_ = stream(dataset, *eval_rows, data::eval_order(setup.arguments, arguments_));
    }
    setup.model = model_.get();
    setup.source = source;
    setup.train = train_.get();
    setup.eval = eval_.get();
  }

  train::Trainer& start() {
    trainer_ = std::make_unique<train::Trainer>(setup);
    return *trainer_;
  }
  void stop() { trainer_.reset(); }
  model::Model& model() { return *model_; }
  Stream& train_stream() { return *train_; }

  std::vector<at::Tensor> weights() {
    std::vector<at::Tensor> copies;
    for (tensor::Parameter* p : model_->parameters()) copies.push_back(p->read()->clone());
    return copies;
  }

  train::Setup setup;  // to change before start()

 private:
  // The rows decide completion_only_loss for those that come after them, as in TRL's trainer.
  std::unique_ptr<Stream> stream(const std::string& dataset, Rows rows, const data::OrderOptions& order) {
    if (setup.arguments.method->rows != config::RowForm::text) return preferences(dataset, rows, order);
    auto examples = data::prepare_sft(*row_range(dataset, rows.first, rows.last), context_);
    context_.completion_only_loss = examples->completion_only_loss();
    return std::make_unique<Stream>(
        data::batches_in_order(std::move(examples), order, data::layout_of(arguments_)));
  }

  std::unique_ptr<Stream> preferences(const std::string& dataset, Rows rows,
                                      const data::OrderOptions& order) {
    const auto source = row_range(dataset, rows.first, rows.last);
    const auto table = data::spool_rows(*source, {{}, size_t{32} << 20, &memory_});
    const data::Truncation truncation{arguments_.max_length, arguments_.truncation_keep_end};
    const data::BatchLayout layout = data::layout_of(arguments_);
    const config::RowForm form = setup.arguments.method->rows;
    if (form != config::RowForm::unpaired) {
      const auto prepare = form == config::RowForm::pairs ? data::prepare_dpo : data::prepare_reward;
      return std::make_unique<Stream>(
          data::batches_of_pairs(prepare(table, context_), order, layout, truncation));
    }
    return std::make_unique<Stream>(data::batches_of_unpaired(
        data::prepare_kto(table, context_), order, layout, truncation,
        setup.arguments.preference.exchanges ? setup.arguments.per_device_train_batch_size : 0));
  }

  base::NullLog log_;
  config::DataArguments arguments_;
  base::MemoryCounter& memory_;
  base::ThreadPool pool_;
  std::unique_ptr<text::Tokenizer> tokenizer_;
  std::unique_ptr<model::Model> model_;
  data::PrepareContext context_;
  std::unique_ptr<Stream> train_, eval_;
  std::unique_ptr<train::Trainer> trainer_;
};

inline Rows parse_rows(const std::string& text) {  // "0..63", both ends included
  const size_t dots = text.find("..");
  return {std::stoll(text.substr(0, dots)), std::stoll(text.substr(dots + 2))};
}

}  // namespace trl::test
