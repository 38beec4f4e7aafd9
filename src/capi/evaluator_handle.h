// An evaluator handle: a model that is measured on rows, without a run.
#pragma once
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "capi/dataset_handle.h"
#include "capi/metrics_handle.h"
#include "capi/runtime.h"
#include "config/config.h"
#include "config/run_options.h"
#include "engine/engine.h"
#include "run/engine_object.h"
#include "run/open_model.h"
#include "run/tokenizer.h"
#include "trl/trl.h"

namespace trl::capi {

class Evaluator {
 public:
  Evaluator(std::shared_ptr<Runtime> runtime, const config::Config& config);
  void evaluate(const Dataset& rows);  // throws Error(busy) while another call runs
  const trl_metrics& metrics() const { return metrics_; }
  const std::shared_ptr<Runtime>& runtime() const { return runtime_; }

 private:
  run::Opening opening() const;
  void open();
  // Returns the predicted peak of the memory counter, model included; 0: not planned.
  int64_t planned(int64_t rows, int64_t longest) const;
  // taken: bytes of the evaluator that the memory counter has already.
  int64_t free_bytes(int64_t taken) const;
  void check_limit(int64_t rows, int64_t longest, int64_t taken) const;

  const std::shared_ptr<Runtime> runtime_;
  const config::RunOptions options_;
  const std::string model_path_;
  std::shared_ptr<run::Tokenizer> tokenizer_;
  bool converts_ = true;      // wider weights to bfloat16; false: memory takes them only in their files
  int64_t opened_bytes_ = 0;  // bytes of the model and its reference in the memory counter
  run::EngineObject<engine::Model> model_;
  run::EngineObject<engine::Evaluator> evaluator_;
  trl_metrics metrics_;
  std::mutex in_use_;
};

}  // namespace trl::capi

struct trl_evaluator : trl::capi::Handle<trl::capi::Evaluator, trl::capi::Tag::evaluator> {
  using Handle::Handle;
};
