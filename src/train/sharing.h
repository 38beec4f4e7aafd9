// share_prefix: common beginnings of rows of a micro-batch are computed once.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "config/training_arguments.h"
#include "data/batch/prefix_tree.h"
#include "model/model.h"
#include "train/method.h"

namespace trl::train {

// Returns the limits within which a run shares beginnings; none: rows share nothing, for a reason that is
// logged unless it is share_prefix: false. share_prefix: true in such a run is Error(invalid_config). log:
// may be null.
std::optional<data::TreeLimits> sharing_of(const config::TrainingArguments& arguments, model::Model& model,
                                           const kernels::AttentionPluginPtr& attention, base::LogSink* log);

// Counts the tokens shared so far.
class SharedTokens {
 public:
  void add(const MicroBatch& batch);
  void add(const SharedTokens& others);
  int64_t count() const { return shared_; }
  void say(base::LogSink& log) const;  // silent if nothing was shared

 private:
  int64_t shared_ = 0, all_ = 0;
};

// A batch of documents, laid out as trees. Its counts (width, num_tokens and the like) stay.
class SharedBatch {
 public:
  // A batch that has parents already shares nothing. The batch outlives this.
  SharedBatch(const engine::Batch& batch, const data::TreeLimits& limits);
  SharedBatch(const SharedBatch&) = delete;
  SharedBatch& operator=(const SharedBatch&) = delete;

  const engine::Batch& batch() const { return batch_; }
  int64_t saved() const { return saved_; }  // tokens left out because they are repeated

 private:
  engine::Batch batch_;
  int64_t saved_ = 0;
  data::PrefixTree tree_;
  std::vector<int32_t> input_ids_, labels_, position_ids_, sequences_;
};

}  // namespace trl::train
