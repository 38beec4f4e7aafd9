#include "model/loader.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/interrupt.h"
#include "base/text/number.h"
#include "kernels/weight/stored_weight.h"
#include "model/initial_values.h"
#include "model/model_config.h"
#include "model/quantised.h"
#include "tensor/device.h"
#include "tensor/memory/counted.h"
#include "tensor/memory/rehearsal.h"
#include "tensor/threads/parallel.h"

namespace trl::model {

namespace {

// "model.layers.{}." -> "model.layers.3."
std::string numbered(std::string_view pattern, int64_t number) {
  return fmt::format(fmt::runtime(pattern), number);
}

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

at::Tensor turned(const at::Tensor& matrix) {
  at::Tensor out =
      tensor::empty({matrix.size(1), matrix.size(0)}, matrix.scalar_type(), tensor::MemoryKind::workspace);
  tensor::copy_in_parts(out, matrix.t());
  return out;
}

const char* key_of(const config::Quantization& quantization) {
  return quantization.form == config::WeightForm::int8 ? "load_in_8bit" : "load_in_4bit";
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

std::unique_ptr<DecoderLayer> Loader::layer(int64_t index) {
  const std::string prefix = numbered(names_.layer, index);
  const auto norm_of = [&](std::string_view name) {
    return name.empty() ? Norm{} : norm(prefix + std::string(name), {config_.hidden_size});
  };
  auto layer = std::make_unique<DecoderLayer>();
  layer->attention = attention(prefix, index);
  if (config_.expert_layers[static_cast<size_t>(index)])
    layer->experts = experts(prefix);
  else
    layer->mlp = mlp(prefix);
  layer->parallel = config_.parallel;
  layer->branch_scale = config_.residual_scale;
  layer->attention_norm = norm_of(names_.attention_norm);
  layer->attention_post_norm = norm_of(names_.attention_post_norm);
  if (!config_.parallel || !config_.family->one_norm_if_parallel) layer->mlp_norm = norm_of(names_.mlp_norm);
  layer->mlp_post_norm = norm_of(names_.mlp_post_norm);
  return layer;
}

BlockAttention Loader::attention(const std::string& prefix, int64_t index) {
  const ModelConfig& c = config_;
  const bool slides = c.sliding_layers[static_cast<size_t>(index)];
  BlockAttention block{.heads = c.num_attention_heads,
                       .kv_heads = c.num_key_value_heads,
                       .head_dim = c.head_dim,
                       .by_head = c.family->qkv_by_head,
                       .whole_norms = c.family->qk_norm_whole,
                       .rope = slides && c.sliding_rope ? 1 : 0,
                       .rope_layout = c.rope.layout};
  if (!c.turned_layers[static_cast<size_t>(index)]) block.rope = -1;
  block.options.scale = c.attention_scale;
  block.options.window = slides ? c.sliding_window : 0;
  block.options.softcap = c.attention_softcap;
  block.weight_dropout = c.dropout.attention;
  block.out_dropout = c.dropout.attention_out;
  const int64_t q_width = block.heads * c.head_dim, kv_width = block.kv_heads * c.head_dim;
  const auto from_stream = [&](std::string_view name, int64_t width) {
    block.in.push_back(projection(prefix + std::string(name), c.hidden_size, width, c.attention_qkv_bias));
  };
  if (names_.qkv.empty()) {
    from_stream(names_.q, q_width);
    from_stream(names_.k, kv_width);
    from_stream(names_.v, kv_width);
  } else {
    from_stream(names_.qkv, q_width + 2 * kv_width);
  }
  block.out =
      projection(prefix + std::string(names_.attention_out), q_width, c.hidden_size, c.attention_out_bias);
  if (c.qk_norm) {
    block.q_norm = norm_of_heads(prefix, names_.q_norm, block.heads);
    block.k_norm = norm_of_heads(prefix, names_.k_norm, block.kv_heads);
  }
  return block;
}

BlockMlp Loader::mlp(const std::string& prefix) {
  const ModelConfig& c = config_;
  BlockMlp block{.gated = !names_.gate.empty() || !names_.gate_up.empty(), .activation = c.activation};
  const auto from_stream = [&](std::string_view name, int64_t width) {
    block.in.push_back(projection(prefix + std::string(name), c.hidden_size, width, c.mlp_bias));
  };
  if (!names_.gate_up.empty()) {
    from_stream(names_.gate_up, 2 * c.intermediate_size);
  } else {
    if (block.gated) from_stream(names_.gate, c.intermediate_size);
    from_stream(names_.up, c.intermediate_size);
  }
  block.out = projection(prefix + std::string(names_.down), c.intermediate_size, c.hidden_size, c.mlp_bias);
  block.out_dropout = c.dropout.mlp_out;
  return block;
}

BlockMlp Loader::shared_expert(const std::string& prefix) {
  const int64_t hidden = config_.hidden_size, width = config_.experts.shared_width;
  const auto part = [&](std::string_view name, int64_t in, int64_t out) {
    return projection(prefix + std::string(name), in, out, false);
  };
  BlockMlp block{.activation = config_.activation};
  block.in = {part(names_.shared_gate, hidden, width), part(names_.shared_up, hidden, width)};
  block.out = part(names_.shared_down, width, hidden);
  return block;
}

BlockExperts Loader::experts(const std::string& prefix) {
  const ExpertsConfig& c = config_.experts;
  const int64_t hidden = config_.hidden_size;
  BlockExperts block{.chosen = c.chosen, .normalised = c.normalised, .activation = config_.activation};
  std::vector<StoredPart> gate_up, down;
  for (int64_t i = 0; i < c.count; ++i) {
    const auto stored = [&, expert = prefix + numbered(names_.expert, i)](std::string_view name) {
      return stored_name(source_, *config_.family, expert + std::string(name) + ".weight");
    };
    gate_up.push_back({stored(names_.expert_gate), i, 0, c.width});
    gate_up.push_back({stored(names_.expert_up), i, c.width, c.width});
    down.push_back({stored(names_.expert_down), i});
  }
  const std::string all = prefix + std::string(names_.experts);
  block.weights.gate_up = expert_weights(all + "gate_up_proj", 2 * c.width, hidden, gate_up);
  block.weights.down = expert_weights(all + "down_proj", hidden, c.width, down);
  block.router = router(prefix + std::string(names_.router), hidden, c.count);
  if (c.shared_width > 0) {
    block.shared = shared_expert(prefix);
    block.shared_gate = projection(prefix + std::string(names_.shared_router), hidden, 1, false);
  }
  return block;
}

// A router chooses by small differences, and transformers has it among the parameters, not the linear layers.
kernels::Projection Loader::router(const std::string& name, int64_t in, int64_t out) {
  return {.weight = matrix(name, out, in)};
}

tensor::Parameter* Loader::expert_weights(const std::string& name, int64_t rows, int64_t columns,
                                          const std::vector<StoredPart>& parts) {
  if (tensor::Parameter* const parameter = experts_in_blocks(name, rows, columns, parts)) return parameter;
  at::Tensor values =
      tensor::empty({config_.experts.count, rows, columns}, dtype_, tensor::MemoryKind::weights, device_);
  for (const StoredPart& part : parts) {
    at::Tensor place = part.of(values);
    check(part.name, place.sizes().vec());
    read(part.name, place);
  }
  tensor::Parameter* const parameter = add(name, name, std::move(values));
  loaded_.parts[parameter] = parts;
  return parameter;
}

Norm Loader::norm(const std::string& name, const std::vector<int64_t>& shape) {
  Norm norm{.kind = config_.family->norm, .eps = config_.norm_eps};
  norm.weight = load(name + ".weight", shape, false);
  if (config_.family->norm_bias) norm.bias = load(name + ".bias", shape, false);
  return norm;
}

// The norm of queries or keys. Separate norms for each head have no bias.
Norm Loader::norm_of_heads(const std::string& prefix, std::string_view name, int64_t heads) {
  const int64_t width = config_.head_dim;
  if (name.find("{}") == std::string_view::npos)
    return norm(prefix + std::string(name), head_norm_shape(config_, heads));
  Norm norm{.kind = config_.family->norm, .eps = config_.norm_eps};
  for (int64_t head = 0; head < heads; ++head) {
    tensor::Parameter* const weight = load(prefix + numbered(name, head) + ".weight", {width}, false);
    if (head == 0)
      norm.weight = weight;
    else
      norm.more.push_back(weight);
  }
  return norm;
}

kernels::Projection Loader::projection(const std::string& name, int64_t in, int64_t out, bool bias) {
  kernels::Projection projection{.weight = encoded_linear(name, out, in)};
  if (projection.weight == nullptr) {
    projection.transposed = config_.family->transposed;
    projection.weight = projection.transposed ? matrix(name, in, out) : matrix(name, out, in);
  }
  if (bias) projection.bias = load(name + ".bias", {out}, false);
  return projection;
}

tensor::Parameter* Loader::matrix(const std::string& name, int64_t rows, int64_t columns) {
  return load(name + ".weight", {rows, columns}, true);
}

at::Tensor Loader::read(const std::string& name, const std::vector<int64_t>& shape) const {
  at::Tensor values = tensor::empty(shape, dtype_, tensor::MemoryKind::workspace);
  source_.read(name, values);
  return values;
}

tensor::Parameter* Loader::add(const std::string& own, const std::string& name,
                               std::shared_ptr<const tensor::Encoded> values) {
  if (!device_.is_cpu()) {
    fail(Status::unsupported,
         "{} is {}, which this build supports only on the CPU, and the model is on {}; give use_cpu: true",
         source_.place(name), values->form(), device_.str());
  }
  tensor::Parameter* const parameter =
      loaded_.all.emplace_back(std::make_unique<tensor::Parameter>(name, std::move(values), dtype_)).get();
  loaded_.names[parameter] = own;
  return parameter;
}

tensor::Parameter* Loader::add(const std::string& own, const std::string& name, at::Tensor values) {
  tensor::Parameter* const parameter =
      loaded_.all.emplace_back(std::make_unique<tensor::Parameter>(name, std::move(values))).get();
  loaded_.names[parameter] = own;
  return parameter;
}

tensor::Parameter* Loader::add_mapped(const std::string& own, const std::string& name) {
  at::Tensor numbers = source_.mapped(name, dtype_);
  if (!numbers.defined()) return nullptr;
  tensor::Parameter* const parameter = add(own, name, std::move(numbers));
  parameter->fixed = "its numbers are read in their file";
  return parameter;
}

// A matrix in blocks: as in the files, or encoded from the ordinary weight, which exists only meanwhile;
// turn: from its transpose. Null: it is held as numbers.
std::shared_ptr<const tensor::Encoded> Loader::blocks(const std::string& name, int64_t rows, int64_t columns,
                                                      bool turn) {
  if (auto values = prequantised(source_, name, {rows, columns}, used_)) {
    const bool eight = values->form() == "int8";
    if (quantization_ && eight != (quantization_.form == config::WeightForm::int8)) {
      fail_key(key_of(quantization_), "{}: true contradicts the files: {} is stored as {}",
               key_of(quantization_), source_.place(name), values->form());
    }
    used_.insert(name);
    tell(std::ssize(used_));
    return values;
  }
  if (!quantization_) return nullptr;
  const std::vector<int64_t> shape = turn ? std::vector{columns, rows} : std::vector{rows, columns};
  check(name, shape);
  return quantised(source_.place(name), turn ? turned(read(name, shape)) : read(name, shape), quantization_);
}

// Converts a wider weight of a linear layer to bfloat16; null: it stays in its file.
std::shared_ptr<const tensor::Encoded> Loader::narrowed(const std::string& name, int64_t rows,
                                                        int64_t columns) const {
  const std::string type = source_.type(name);
  if (held_ != Held::for_bfloat16 || (type != "F32" && type != "F16" && type != "F64")) return nullptr;
  at::Tensor values = tensor::empty({rows, columns}, at::kBFloat16, tensor::MemoryKind::weights);
  source_.read(name, values);
  return kernels::bfloat16_weight(values);
}

// [out, in], also for a family whose files have [in, out]; null: it is held as numbers.
tensor::Parameter* Loader::encoded_linear(const std::string& module, int64_t rows, int64_t columns) {
  const std::string own = module + ".weight", name = stored_name(source_, *config_.family, own);
  const bool turn = config_.family->transposed;
  auto values = blocks(name, rows, columns, turn);
  if (values == nullptr && held_ != Held::numbers) {
    check(name, turn ? std::vector{columns, rows} : std::vector{rows, columns});
    if (!turn) values = narrowed(name, rows, columns);
    if (values == nullptr && !turn) {
      if (tensor::Parameter* const parameter = add_mapped(own, name)) return parameter;
    }
    if (values == nullptr) values = source_.encoded(name, turn);
  }
  if (values == nullptr) return nullptr;
  tensor::Parameter* const parameter = add(own, name, std::move(values));
  if (turn) loaded_.parts[parameter] = {{.name = name, .transposed = true}};
  return parameter;
}

// Matrices of the experts, each in its own blocks, in order; gate and up are two.
tensor::Parameter* Loader::experts_in_blocks(const std::string& name, int64_t rows, int64_t columns,
                                             const std::vector<StoredPart>& parts) {
  std::vector<std::shared_ptr<const tensor::Encoded>> matrices;
  for (const StoredPart& part : parts) {
    const int64_t own = part.rows < 0 ? rows : part.rows;
    auto values = blocks(part.name, own, columns);
    if (values == nullptr && held_ != Held::numbers) {
      check(part.name, {own, columns});
      values = source_.encoded(part.name, false);
    }
    if (values == nullptr && matrices.empty()) return nullptr;
    if (values == nullptr || values->form() != (matrices.empty() ? values : matrices[0])->form()) {
      fail(Status::format, "{} is not stored in the form of {}, and experts of a layer share one",
           source_.place(part.name), source_.place(parts[0].name));
    }
    matrices.push_back(std::move(values));
  }
  tensor::Parameter* const parameter =
      add(name, name, kernels::stacked_weight({config_.experts.count, rows, columns}, std::move(matrices)));
  loaded_.parts[parameter] = parts;
  return parameter;
}

// Reports the number of loaded tensors as progress. A rehearsal reads none of them.
void Loader::tell(int64_t done) const {
  const bool rehearsed = tensor::Rehearsal::current() != nullptr;
  base::progress(rehearsed ? "plan" : "weights", std::min(done, tensors_), tensors_);
}

// Checks and counts a tensor. Tensors are taken from the source one by one, in the order in which they become
// parameters.
void Loader::check(const std::string& name, const std::vector<int64_t>& shape) {
  source_.need(name, shape);
  tell(std::ssize(used_));
  used_.insert(name);
}

tensor::Parameter* Loader::load(const std::string& own, const std::vector<int64_t>& shape, bool decay) {
  const std::string name = stored_name(source_, *config_.family, own);
  check(name, shape);
  if (held_ != Held::numbers && shape.size() > 1) {
    if (tensor::Parameter* const parameter = add_mapped(own, name)) return parameter;
    if (auto values = source_.encoded(name, false)) return add(own, name, std::move(values));
  }
  at::Tensor values = tensor::empty(shape, dtype_, tensor::MemoryKind::weights, device_);
  read(name, values);
  tensor::Parameter* const parameter = add(own, name, std::move(values));
  parameter->decay = decay;
  return parameter;
}

void Loader::read(const std::string& name, at::Tensor& out) const {
  if (out.is_cpu()) return source_.read(name, out);
  at::Tensor host = tensor::empty(out.sizes(), out.scalar_type(), tensor::MemoryKind::workspace);
  source_.read(name, host);
  out.copy_(host);
}

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
