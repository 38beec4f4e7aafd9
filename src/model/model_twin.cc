// A second model over the weights of a first one.
#include <ATen/CPUGeneratorImpl.h>

#include <map>

#include "model/model.h"

namespace trl::model {

namespace {

using Twins = std::map<const Parameter*, Parameter*>;

void follow(const Twins& twins, Parameter*& parameter) {
  if (parameter != nullptr) parameter = twins.at(parameter);
}

void follow(const Twins& twins, kernels::Projection& p) {
  follow(twins, p.weight);
  follow(twins, p.bias);
  p.int8 = nullptr;  // the products of training
}

void follow(const Twins& twins, Norm& norm) {
  follow(twins, norm.weight);
  follow(twins, norm.bias);
  for (Parameter*& weight : norm.more) follow(twins, weight);
}

void follow(const Twins& twins, DecoderLayer& layer) {
  for (kernels::Projection* const p : layer.projections()) follow(twins, *p);
  for (Norm* const norm : {&layer.attention_norm, &layer.mlp_norm, &layer.attention_post_norm,
                           &layer.mlp_post_norm, &layer.attention.q_norm, &layer.attention.k_norm})
    follow(twins, *norm);
  if (!layer.experts) return;
  follow(twins, layer.experts->router);
  follow(twins, layer.experts->shared_gate);
  follow(twins, layer.experts->weights.gate_up);
  follow(twins, layer.experts->weights.down);
}

std::unique_ptr<Parameter> twin_of(Parameter& of) {
  auto made = of.encoded() != nullptr ? std::make_unique<Parameter>(of.name, of.blocks(), of.dtype())
                                      : std::make_unique<Parameter>(of.name, *of.read());
  made->decay = of.decay;
  made->trainable = false;
  made->embedding = of.embedding;
  made->padding_row = of.padding_row;
  made->fixed = "another model computes with it, too";
  return made;
}

}  // namespace

Model::Model(const Model& of, Twin)
    : files_(of.files_),
      dtype_(of.dtype_),
      device_(of.device_),
      generator_(at::detail::createCPUGenerator()),
      carried_(of.carried_),
      source_(of.source_),
      layer_parameters_(of.layer_parameters_),
      embedding_(of.embedding_),
      positions_(of.positions_),
      norm_(of.norm_),
      head_(of.head_) {
  Twins twins;
  for (const auto& parameter : of.loaded_.all)
    twins[parameter.get()] = loaded_.all.emplace_back(twin_of(*parameter)).get();
  for (const auto& [parameter, parts] : of.loaded_.parts) loaded_.parts[twins.at(parameter)] = parts;
  for (const auto& [parameter, name] : of.loaded_.names) loaded_.names[twins.at(parameter)] = name;
  for (const auto& layer : of.layers_)
    follow(twins, *layers_.emplace_back(std::make_unique<DecoderLayer>(*layer)));
  follow(twins, embedding_);
  follow(twins, positions_);
  follow(twins, norm_);
  follow(twins, head_);
  std::vector<Slot> own = slots();
  for (size_t i = 0; i < own.size(); ++i) own[i].stored_rows = of.adapters_.slots()[i].stored_rows;
  adapters_ = Adapters(std::move(own), std::string(config().family->model_type), device_);
}

std::unique_ptr<Model> Model::twin() const { return std::unique_ptr<Model>(new Model(*this, Twin{})); }

}  // namespace trl::model
