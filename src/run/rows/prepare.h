// Turns a dataset handle into the batches of a run, before the trainer opens the model, and shows rows and
// batches as a run would train on them, as JSON.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>

#include "base/json/json.h"
#include "base/log.h"
#include "config/dataset/data_arguments.h"
#include "config/training_arguments.h"
#include "data/prepare/sft_tokens.h"
#include "engine/error_capture.h"
#include "io/model_source.h"
#include "run/rollout/prompts.h"
#include "run/rollout/tools/tool_template.h"
#include "run/rows/batch_source.h"
#include "run/rows/rows.h"
#include "run/tokenizer.h"
#include "text/tokenizer/tokenizer.h"

namespace trl::run {

struct Prepared {
  std::unique_ptr<base::ThreadPool> pool;     // dataset_num_proc; or null. Outlives the batches
  std::unique_ptr<const ToolTemplate> tools;  // of a run whose completions call tools; or null
  std::unique_ptr<Batches> train;             // null: no run
  std::unique_ptr<Batches> eval;              // or null
  // Set if the method writes completions; the batches above then only say how large rows can be.
  std::shared_ptr<Prompts> train_prompts, eval_prompts;
  // The decision of the training rows, which holds for evaluation rows too; none: each make their own.
  std::optional<bool> completion_only_loss;
};

// training: the values of config. model: of the run; its files are read if the method writes completions.
// tokenizer: outlives the result.
Prepared prepare(Environment& environment, const config::Config& config,
                 const config::TrainingArguments& training, const io::ModelSource& model,
                 const text::Tokenizer& tokenizer, const Rows& train, const Rows* eval);

// Prepares rows that are only evaluated. completion_only_loss: of the training rows of a run.
Prepared prepare_evaluation(Environment& environment, const config::Config& config,
                            const config::TrainingArguments& training, const text::Tokenizer& tokenizer,
                            const Rows& rows, std::optional<bool> completion_only_loss = {});

// Counts the tokens of rows before they are cut. A wrapped pack begins anywhere in its rows, and a host's
// rows and streamed rows are not read again.
class WholeRows {
 public:
  WholeRows(const Rows& dataset, const config::Config& config, const text::Tokenizer& tokenizer);
  // Returns the lengths of these rows; null: not known.
  base::Json lengths(const base::Json& rows) const;

 private:
  config::DataArguments arguments_;
  base::NullLog log_;
  std::shared_ptr<const data::Table> table_;
  std::optional<data::SftTokens> rows_;
};

// The batches of a run's first epoch.
class Epoch {
 public:
  Epoch(const Rows& dataset, const Tokenizer& tokenizer, const config::Config& given);
  bool next();
  void find(int64_t number);  // moves to the batch with this number, from 0
  base::Json describe() const;

 private:
  const config::Config config_;
  const std::unique_ptr<text::Tokenizer> tokenizer_;
  const Prepared prepared_;
  const WholeRows whole_;
  engine::ErrorCapture error_;
  const data::Batch* batch_ = nullptr;
  int64_t number_ = -1;
};

// Returns {row, input_ids, labels, pieces, texts} of one row. config: with the options of the rows.
base::Json read_example(const Rows& rows, const Tokenizer& tokenizer, const config::Config& config,
                        int64_t row);

}  // namespace trl::run
