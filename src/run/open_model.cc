#include "run/open_model.h"

#include "config/model_dtype.h"
#include "config/quantization.h"
#include "engine/error_capture.h"
#include "run/model_files.h"

namespace trl::run {

engine::ModelSpec model_spec(std::string_view path, std::string_view dtype, const config::Config& options,
                             const Opening& how) {
  const std::string adapter = adapter_path(options);
  return {.path = path,
          .dtype = dtype,
          .use_cpu = options.get_bool("use_cpu"),
          .embedding_rows = how.embedding_rows,
          .seed = static_cast<uint64_t>(options.get_int("seed")),
          .quantization = config::quantization(options),
          .reward = how.reward,
          .head_follows = how.reward && !adapter.empty() && makes_classifier(adapter),
          .mapped = how.mapped,
          .bf16 = how.bf16};
}

EngineObject<engine::Model> open_model(Environment& environment, const std::string& path,
                                       const config::Config& options, const Opening& how) {
  const std::string dtype = config::model_dtype(options);
  const std::string adapter = adapter_path(options);
  const engine::ModelSpec spec = model_spec(path, dtype, options, how);
  engine::Model* model = nullptr;
  engine::ErrorCapture error;
  engine::Engine& engine = environment.engine();
  error.check(environment.use_engine(Use::open, [&] { return engine.open_model(spec, &model, error); }));
  EngineObject<engine::Model> opened(model);
  if (!adapter.empty()) {
    error.check(environment.use_engine(Use::open, [&] {
      const int32_t status = model->add_adapter("default", adapter, error);
      return status < 0 ? status : model->use_adapter("default", error);
    }));
  }
  return opened;
}

engine::SaveKind save_kind(std::string_view name) {
  using engine::SaveKind;
  if (name == "checkpoint") return SaveKind::checkpoint;
  if (name == "adapter") return SaveKind::adapter;
  return name == "merged" ? SaveKind::merged : SaveKind::model;
}

std::vector<int32_t> end_tokens(engine::Model& model, const text::Tokenizer& tokenizer) {
  const auto of_model = model.end_ids();
  std::vector<int32_t> ids(of_model.begin(), of_model.end());
  if (const auto eos = tokenizer.special_id(tokenizer.special().eos)) ids.push_back(*eos);
  return ids;
}

}  // namespace trl::run
