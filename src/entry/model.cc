#include "entry/model.h"

#include <ATen/core/grad_mode.h>

#include "checkpoint/save_model.h"
#include "entry/guard.h"
#include "generate/generate.h"

namespace trl::entry {

ModelObject::ModelObject(engine::Host& host, const engine::ModelSpec& spec) : host_(host) {
  HostLog log(host);
  model_ = model::Model::open(std::string(spec.path), spec.dtype, &log);
  config_json_ = model_->config_json().dump();
  for (const tensor::Parameter* parameter : model_->parameters())
    parameter_count_ += parameter->value.numel();
}

int32_t ModelObject::save(std::string_view directory, std::span<const engine::NamedBytes> files,
                          engine::ErrorSink& error) noexcept {
  return guard(host_, error, [&] {
    checkpoint::save_model(std::string(directory), *model_, files);
    return Status::ok;
  });
}

int32_t ModelObject::generate(std::span<const std::span<const int32_t>> prompts,
                              const engine::Sampling& sampling, engine::TokenSink& sink,
                              const engine::Cancel* cancel, engine::ErrorSink& error) noexcept {
  return guard(host_, error, [&] {
    const at::AutoGradMode without_graph(false);
    generate::generate(*model_, prompts, sampling, model_->compute(at::kFloat), sink, cancel);
    return Status::ok;
  });
}

}  // namespace trl::entry
