#include "model/adapter.h"

#include <algorithm>
#include <map>

#include "base/counter.h"
#include "base/error.h"
#include "kernels/expert_terms.h"
#include "kernels/magnitude.h"
#include "kernels/merged_weight.h"
#include "model/lora_start.h"
#include "tensor/counted.h"
#include "tensor/device.h"

namespace trl::model {

namespace {

using adapter::Role;

constexpr uint64_t kDropout = 0x41726f4c;  // keeps its keys apart from those of the model's own dropout

std::vector<adapter::Module> modules_of(const std::vector<Slot>& slots) {
  std::vector<adapter::Module> modules;
  for (const Slot& slot : slots) modules.push_back(slot.module);
  return modules;
}

at::Tensor values_of(const adapter::AdapterFile& file, const Parameter& parameter) {
  const io::TensorView& view = file.tensors().at(parameter.name);
  if (view.shape != parameter.shape().vec()) {
    fail(Status::format, "{}: tensor {} has shape [{}], and this model needs [{}]", file.path(),
         parameter.name, fmt::join(view.shape, ", "), fmt::join(parameter.shape(), ", "));
  }
  at::Tensor values = tensor::empty(view.shape, at::kFloat, tensor::MemoryKind::workspace);
  io::read_floats(view.type, view.data, 0, values.numel(), values.data_ptr<float>());
  return values;
}

void set(Parameter& parameter, const at::Tensor& values) { parameter.write()->copy_(values); }

// What parameters were, which they are again when this goes.
class Originals {
 public:
  Originals() = default;
  ~Originals() {
    for (auto& [parameter, values] : values_) parameter->write()->copy_(values);
    for (auto& [parameter, blocks] : blocks_) parameter->hold(blocks);
  }
  Originals(const Originals&) = delete;
  Originals& operator=(const Originals&) = delete;
  void keep(Parameter& parameter) {
    if (parameter.blocks() != nullptr) {
      blocks_.emplace(&parameter, parameter.blocks());
    } else if (!blocks_.contains(&parameter)) {
      values_.emplace(&parameter, parameter.read()->clone());
    }
  }

 private:
  std::map<Parameter*, at::Tensor> values_;  // the first copy counts
  std::map<Parameter*, std::shared_ptr<const tensor::Encoded>> blocks_;
};

void check_mergeable(const Slot& slot, const kernels::LowRank& factors) {
  const tensor::Encoded* const encoded = (*slot.weight)->encoded();
  if (encoded != nullptr && factors.magnitude != nullptr && slot.module.kind != adapter::ModuleKind::linear) {
    fail(Status::unsupported,
         "{}: DoRA is merged into {} weights of linear layers alone: open the model with another dtype",
         slot.module.name, encoded->form());
  }
  if (factors.bias != nullptr && !slot.module.bias) {
    fail(Status::unsupported, "{}: lora_bias cannot be merged into a module without a bias",
         slot.module.name);
  }
}

// Blocks are never made anew: an encoded weight gets its terms as it is decoded, or becomes numbers.
void merge(const kernels::Projection& p, Merged as) {
  if (p.weight->encoded() == nullptr) {
    const bool experts = p.weight->shape().size() == 3;
    return experts ? kernels::merge_experts(*p.weight, p.low_rank) : kernels::merge(p);
  }
  p.weight->hold(kernels::merged_weight(p));
  if (as == Merged::numbers) p.weight->decode();
}

// In float32, on the host, [out, in].
at::Tensor matrix_of(const Slot& slot) {
  const at::Tensor values = tensor::on_host(*(*slot.weight)->read()).to(at::kFloat);
  return slot.module.kind == adapter::ModuleKind::conv1d ? values.t().contiguous() : values;
}

}  // namespace

Adapter::Adapter(std::string name, config::LoraConfig config, adapter::Selection selection,
                 const std::vector<Slot>& slots, at::ScalarType type, at::Device device)
    : name_(std::move(name)), config_(std::move(config)), selection_(std::move(selection)), slots_(slots) {
  for (const adapter::Target& target : selection_.targets) {
    const Slot& slot = slots_[target.module];
    if (slot.low_rank == nullptr)
      fail(Status::unsupported, "{}: there are no adapters for modules of its kind", slot.module.name);
    terms_.push_back({target.module, target.parameter});
    terms_.back().factors.scale = target.scaling;
    terms_.back().factors.dropout.rate = config_.lora_dropout;
  }
  tensors_ = adapter::tensors(config_, selection_, modules_of(slots_));
  for (const adapter::Tensor& tensor : tensors_) add(tensor, type, device);
}

void Adapter::add(const adapter::Tensor& tensor, at::ScalarType type, at::Device device) {
  const Slot& slot = slots_[tensor.module];
  const auto own = [&] { return make(tensor, type, device); };
  switch (tensor.role) {
    case Role::a:
      term(tensor.module).factors.a = own();
      return;
    case Role::b:
      term(tensor.module).factors.b = own();
      return;
    case Role::b_bias:
      term(tensor.module).factors.bias = own();
      return;
    case Role::magnitude:  // it changes too little in a step for bfloat16
      term(tensor.module).factors.magnitude = make(tensor, at::kFloat, device);
      return;
    case Role::weight:
      if (!tensor.optional) replace(slot.weight, tensor);
      return;
    case Role::bias:
      return replace(slot.bias, tensor);
    case Role::tokens:
      return add_tokens(tensor);
  }
}

void Adapter::add_tokens(const adapter::Tensor& tensor) {
  const Slot& slot = slots_[tensor.module];
  if (slot.own_rows == nullptr) {
    fail_key(
        "trainable_token_indices", "trainable_token_indices: {} {}", slot.module.name,
        slot.module.kind == adapter::ModuleKind::embedding && slot.low_rank != nullptr
            ? "is the output head too, whose tokens are not trained by themselves in this build: list it "
              "in modules_to_save"
            : "is not the input embedding");
  }
  const auto& all = selection_.tokens;
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const auto& one) { return one.first == tensor.module; });
  Parameter& table = **slot.weight;
  Parameter* const rows = make(tensor, table.dtype(), table.device());
  const at::Tensor ids = at::tensor(at::IntArrayRef(found->second), at::kLong).to(table.device());
  set(*rows, table.read()->index_select(0, ids));
  tokens_.push_back({tensor.module, {rows, found->second}});
}

Adapter::Term& Adapter::term(size_t slot) {
  return *std::find_if(terms_.begin(), terms_.end(), [&](const Term& term) { return term.slot == slot; });
}

Parameter* Adapter::make(const adapter::Tensor& tensor, at::ScalarType type, at::Device device) {
  at::Tensor values = tensor::empty(tensor.shape, type, tensor::MemoryKind::weights, device);
  return parameters_.emplace_back(std::make_unique<Parameter>(tensor.name, std::move(values))).get();
}

void Adapter::replace(Parameter** place, const adapter::Tensor& tensor) {
  Parameter& original = **place;
  adapter::Tensor own = tensor;
  own.shape = original.shape().vec();
  Parameter* const made = make(own, original.dtype(), original.device());
  set(*made, *original.read());
  made->decay = original.decay;
  made->padding_row = original.padding_row;
  replaced_.push_back({place, made, slots_[tensor.module].layer});
}

std::vector<Parameter*> Adapter::parameters() const {
  std::vector<Parameter*> all;
  for (const auto& parameter : parameters_) all.push_back(parameter.get());
  return all;
}

void Adapter::start(uint64_t seed) {
  LoraStart values(config_, seed, (*slots_.front().weight)->dtype());
  for (const bool parameters : {false, true}) {
    for (Term& term : terms_) {
      if (term.parameter == parameters) start(term, values);
    }
  }
}

LoraFactors Adapter::drawn(const Term& term, LoraStart& values) const {
  const Slot& slot = slots_[term.slot];
  const adapter::Module& module = slot.module;
  const int64_t rank = term.factors.rank();
  if (module.kind == adapter::ModuleKind::embedding) return values.embedding(module.in, module.out, rank);
  if (module.kind == adapter::ModuleKind::experts)
    return values.experts(module.experts, module.in, module.out, rank / module.experts);
  return values.linear(module.in, module.out, rank, term.factors.scale,
                       values.needs_weight() ? matrix_of(slot) : at::Tensor());
}

void Adapter::start(Term& term, LoraStart& values) {
  const Slot& slot = slots_[term.slot];
  const kernels::LowRank& factors = term.factors;
  const LoraFactors first = drawn(term, values);
  if (first.base.defined()) {
    fail_key("init_lora_weights",
             "init_lora_weights: olora and pissa are not in this build; give true, false, "
             "gaussian or orthogonal");
  }
  set(*factors.a, first.a);
  set(*factors.b, first.b);
  if (factors.bias != nullptr) set(*factors.bias, first.bias);
  if (factors.magnitude != nullptr)
    set(*factors.magnitude, (matrix_of(slot) + factors.scale * first.b.mm(first.a)).square().sum(1).sqrt());
}

// PEFT saves the embedding beside its adapter; here it is the model's.
void Adapter::check_embeddings(const adapter::AdapterFile& file) const {
  for (const adapter::Tensor& tensor : tensors_) {
    const auto found = file.tensors().find(tensor.name);
    if (!tensor.optional || found == file.tensors().end()) continue;
    const Parameter& own = **slots_[tensor.module].weight;
    at::Tensor values = tensor::empty(own.shape(), at::kFloat, tensor::MemoryKind::workspace);
    io::read_floats(found->second.type, found->second.data, 0, values.numel(), values.data_ptr<float>());
    if (at::equal(values.to(own.dtype()), tensor::on_host(*(*slots_[tensor.module].weight)->read())))
      continue;
    fail(Status::unsupported,
         "{}: tensor {} differs from this model's: the adapter belongs to another model, or to one whose "
         "embedding was changed; give that one",
         file.path(), tensor.name);
  }
}

void Adapter::load(const std::string& directory) {
  const auto file = adapter::open_weights(directory, tensors_);
  check_embeddings(*file);
  std::vector<at::Tensor> values;  // all of them are read before the first one is set
  for (const auto& parameter : parameters_) values.push_back(values_of(*file, *parameter));
  file->check();
  for (size_t i = 0; i < values.size(); ++i) set(*parameters_[i], values[i]);
}

kernels::Projection Adapter::projection(const Term& term) const {
  const Slot& slot = slots_[term.slot];
  return {.weight = *slot.weight,
          .bias = slot.bias != nullptr ? *slot.bias : nullptr,
          .transposed = slot.module.kind == adapter::ModuleKind::conv1d ||
                        slot.module.kind == adapter::ModuleKind::embedding,
          .low_rank = term.factors};
}

std::shared_ptr<void> Adapter::merged(Merged as) {
  for (const Term& term : terms_) check_mergeable(slots_[term.slot], term.factors);
  auto before = std::make_shared<Originals>();
  for (const Replacement& one : replaced_) {
    Parameter& place = **one.place;
    before->keep(place);
    if (place.encoded() != nullptr) {
      place.hold(*one.own->read());
    } else {
      set(place, *one.own->read());
    }
  }
  for (const Tokens& one : tokens_) {
    Parameter& table = **slots_[one.slot].weight;
    before->keep(table);
    if (table.encoded() != nullptr) table.decode();
    const at::Tensor ids = at::tensor(at::IntArrayRef(one.rows.ids), at::kLong).to(table.device());
    table.write()->index_copy_(0, ids, one.rows.rows->read()->to(table.dtype()));
  }
  for (const Term& term : terms_) {
    const kernels::Projection p = projection(term);
    before->keep(*p.weight);
    merge(p, as);
    if (term.factors.bias == nullptr) continue;
    before->keep(*p.bias);
    set(*p.bias, p.bias->read()->to(at::kFloat) + *term.factors.bias->read() * term.factors.scale);
  }
  return before;
}

int64_t Adapter::first_trained_layer() const {
  int64_t first = std::numeric_limits<int64_t>::max();
  const auto see = [&](const Parameter* parameter, int64_t layer) {
    if (parameter != nullptr && parameter->has_gradient()) first = std::min(first, layer);
  };
  for (const Term& term : terms_) {
    for (const Parameter* one : {term.factors.a, term.factors.b, term.factors.bias, term.factors.magnitude})
      see(one, slots_[term.slot].layer);
  }
  for (const Replacement& one : replaced_) see(one.own, one.layer);
  for (const Tokens& one : tokens_) see(one.rows.rows, slots_[one.slot].layer);
  return first;
}

bool Adapter::trains_only_terms(int64_t layer) const {
  const auto is_projection = [&](const Term& term) {
    const adapter::ModuleKind kind = slots_[term.slot].module.kind;
    return slots_[term.slot].layer != layer || kind == adapter::ModuleKind::linear ||
           kind == adapter::ModuleKind::conv1d;
  };
  return std::all_of(terms_.begin(), terms_.end(), is_projection) &&
         std::none_of(replaced_.begin(), replaced_.end(),
                      [&](const Replacement& one) { return one.layer == layer && one.own->has_gradient(); });
}

void Adapter::enter(const uint64_t* key) {
  for (const Term& term : terms_) {
    kernels::LowRank& place = *slots_[term.slot].low_rank;
    place = term.factors;
    if (key == nullptr) {
      place.dropout = {};
    } else {
      place.dropout.key = base::counter_seed({*key, kDropout, term.slot});
    }
  }
  for (Replacement& one : replaced_) one.before = std::exchange(*one.place, one.own);
  for (const Tokens& one : tokens_) *slots_[one.slot].own_rows = one.rows;
}

void Adapter::leave() {
  for (const Term& term : terms_) *slots_[term.slot].low_rank = {};
  for (Replacement& one : replaced_) *one.place = one.before;
  for (const Tokens& one : tokens_) *slots_[one.slot].own_rows = {};
}

}  // namespace trl::model
