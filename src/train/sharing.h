// share_prefix: what rows of a micro-batch have in common at their beginnings is computed once.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "config/training_arguments.h"
#include "data/batch/prefix_tree.h"
#include "model/model.h"
#include "train/method.h"

namespace trl::train {

// Which beginnings a run shares; none: no row shares anything, for a reason that is logged unless it is
// share_prefix: false. share_prefix: true in such a run is Error(invalid_config). log: may be null.
std::optional<data::TreeLimits> sharing_of(const config::TrainingArguments& arguments, model::Model& model,
                                           const kernels::AttentionPluginPtr& attention, base::LogSink* log);

// What was shared so far.
class SharedTokens {
 public:
  void add(const MicroBatch& batch);
  void add(const SharedTokens& others);
  int64_t count() const { return shared_; }
  void say(base::LogSink& log) const;  // nothing where nothing was shared

 private:
  int64_t shared_ = 0, all_ = 0;
};

// A batch of documents, laid out as trees. What is counted of it (width, num_tokens and the like) stays.
class SharedBatch {
 public:
  // Of a batch that has parents already nothing is shared. The batch outlives this.
  SharedBatch(const engine::Batch& batch, const data::TreeLimits& limits);
  SharedBatch(const SharedBatch&) = delete;
  SharedBatch& operator=(const SharedBatch&) = delete;

  const engine::Batch& batch() const { return batch_; }
  int64_t saved() const { return saved_; }  // tokens that are not in it again

 private:
  engine::Batch batch_;
  int64_t saved_ = 0;
  data::PrefixTree tree_;
  std::vector<int32_t> input_ids_, labels_, position_ids_, sequences_;
};

}  // namespace trl::train
