#include "model/loader/loader.h"

#include <algorithm>

#include "base/error.h"
#include "base/text/number.h"
#include "model/config/model_config.h"
#include "model/weights/initial_values.h"
#include "tensor/device.h"
#include "tensor/memory/counted.h"

namespace trl::model {

namespace {

// The layer number in "model.layers.3.mlp.up_proj.weight" (3), also without "model.", and in
// "blk.3.ffn_up.weight"; -1: not in a layer.
int64_t layer_of(std::string_view name, std::string_view pattern) {
  const std::string_view whole = pattern.substr(0, pattern.find('{'));
  for (const std::string_view start : {whole, whole.substr(whole.find('.') + 1), std::string_view("blk.")}) {
    if (!name.starts_with(start)) continue;
    const std::string_view rest = name.substr(start.size());
    return base::parse_int64(rest.substr(0, rest.find('.'))).value_or(-1);
  }
  return -1;
}

}  // namespace

Loader::Loader(const ModelConfig& config, const WeightSource& source, at::ScalarType dtype, at::Device device,
               const config::Quantization& quantization, Held held, LoadedParameters& loaded)
    : config_(config),
      names_(config.family->names),
      source_(source),
      dtype_(dtype),
      device_(device),
      quantization_(quantization),
      held_(held),
      loaded_(loaded),
      tensors_(std::ssize(source.others({}))) {}

tensor::Parameter* Loader::embedding() {
  tensor::Parameter* embedding =
      matrix(std::string(names_.embedding), config_.vocab_size, config_.hidden_size);
  embedding->embedding = true;
  embedding->padding_row = config_.pad_token_id;
  return embedding;
}

tensor::Parameter* Loader::positions() {
  if (names_.positions.empty()) return nullptr;
  tensor::Parameter* positions =
      matrix(std::string(names_.positions), config_.max_position_embeddings, config_.hidden_size);
  positions->embedding = true;
  return positions;
}

tensor::Parameter* Loader::head(tensor::Parameter* embedding) {
  if (!config_.tie_word_embeddings)
    return matrix(std::string(names_.head), config_.vocab_size, config_.hidden_size);
  check_tied(*embedding);
  return embedding;
}

// A language model that becomes a classifier leaves its own head unused.
tensor::Parameter* Loader::score(at::Generator& generator) {
  used_.insert(stored_name(source_, *config_.family, std::string(names_.head) + ".weight"));
  if (!config_.new_head) return matrix(std::string(names_.score), config_.labels, config_.hidden_size);
  const std::string name = std::string(names_.score) + ".weight";
  const at::Tensor drawn = new_score_head(config_, dtype_, generator);
  at::Tensor values = tensor::empty(drawn.sizes(), dtype_, tensor::MemoryKind::weights, device_);
  values.copy_(drawn);
  auto parameter = std::make_unique<tensor::Parameter>(name, values);
  parameter->decay = true;
  loaded_.names[parameter.get()] = name;
  return loaded_.all.emplace_back(std::move(parameter)).get();
}

Norm Loader::final_norm() { return norm(std::string(names_.final_norm), {config_.hidden_size}); }

// Checks that a tied head that is stored as well equals the embedding: training would silently drop one of
// the two.
void Loader::check_tied(tensor::Parameter& embedding) {
  const std::string name = stored_name(source_, *config_.family, std::string(names_.head) + ".weight");
  const std::vector<int64_t>* shape = source_.shape(name);
  if (shape == nullptr) return;
  used_.insert(name);
  const bool same =
      *shape == embedding.shape().vec() && holds(source_, name, tensor::on_host(*embedding.read()));
  if (!same) {
    fail(Status::format,
         "{} differs from the embedding although tie_word_embeddings is true; set it to false",
         source_.place(name));
  }
}

std::vector<std::string> Loader::carried() {
  std::vector<std::string> names;
  for (const std::string& name : source_.others(used_)) {
    const auto begins = [&](std::string_view prefix) { return name.starts_with(prefix); };
    if (std::ranges::any_of(config_.family->carried, begins)) names.push_back(name);
  }
  used_.insert(names.begin(), names.end());
  return names;
}

void Loader::report_others(base::LogSink* log) const {
  tell(tensors_);
  if (log == nullptr) return;
  const int64_t layers = config_.num_hidden_layers;
  int64_t beyond = 0, last = 0;
  for (const std::string& name : source_.others(used_)) {
    const int64_t layer = layer_of(name, names_.layer);
    beyond += layer >= layers ? 1 : 0;
    last = std::max(last, layer);
    if (!is_buffer(name) && layer < layers)
      log->warning("model", "tensor {} is not used by this family", name);
  }
  if (beyond == 0) return;
  log->warning("model",
               "the files have weights of {} layers, and config.json has num_hidden_layers {}: {} tensors of "
               "the remaining layers are not read",
               last + 1, layers, beyond);
}

}  // namespace trl::model
