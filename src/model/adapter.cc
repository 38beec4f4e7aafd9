#include "model/adapter.h"

#include <algorithm>
#include <atomic>
#include <map>

#include "base/error.h"
#include "kernels/experts/expert_terms.h"
#include "kernels/linear/low_rank.h"
#include "kernels/weight/stored_weight.h"
#include "tensor/device.h"
#include "tensor/memory/counted.h"
#include "tensor/memory/rehearsal.h"

namespace trl::model {

namespace {

using adapter::Role;

uint64_t next_number() {
  static std::atomic<uint64_t> last{0};
  return ++last;
}

// Reads a tensor of the file into the parameter. room: for numbers on their way to another type, which the
// next tensor uses again: new pages of memory cost more than reading into them.
void read_into(Parameter& parameter, const adapter::AdapterFile& file, at::Tensor& room) {
  const io::TensorView& view = file.tensors().at(parameter.name);
  if (view.shape != parameter.shape().vec()) {
    fail(Status::format, "{}: tensor {} has shape [{}], and this model needs [{}]", Place::in(file.path()),
         parameter.name, fmt::join(view.shape, ", "), fmt::join(parameter.shape(), ", "));
  }
  const tensor::Writing values = parameter.write();
  const int64_t count = values->numel();
  if (values->is_cpu() && values->scalar_type() == at::kFloat && values->is_contiguous())
    return io::read_floats(view.type, view.data, 0, count, values->data_ptr<float>());
  if (!room.defined() || room.numel() < count)
    room = tensor::empty({count}, at::kFloat, tensor::MemoryKind::workspace);
  io::read_floats(view.type, view.data, 0, count, room.data_ptr<float>());
  values->copy_(room.narrow(0, 0, count).view(view.shape));
}

void set(Parameter& parameter, const at::Tensor& values) { parameter.write()->copy_(values); }

// A counted copy of the values. A rehearsal copies nothing.
at::Tensor copy_of(Parameter& parameter) {
  const tensor::Reading values = parameter.read();
  const at::Tensor copy = tensor::empty_like(*values, tensor::MemoryKind::weights);
  tensor::copy(*values, copy);
  return copy;
}

// Copies of parameters' values, which are restored when this is destroyed.
class Originals {
 public:
  Originals() = default;
  ~Originals() {
    for (auto& [parameter, values] : values_) tensor::copy(values, *parameter->write());
    for (auto& [parameter, blocks] : blocks_) parameter->hold(blocks);
    if (untied_ != nullptr) *untied_ = nullptr;
  }
  // Gives a tied head a separate matrix.
  void untie(Parameter& head, Parameter*& untied) {
    own_ = std::make_unique<Parameter>(head.name, copy_of(head));
    untied = own_.get();
    untied_ = &untied;
  }
  Originals(const Originals&) = delete;
  Originals& operator=(const Originals&) = delete;
  void keep(Parameter& parameter) {
    if (parameter.blocks() != nullptr)
      blocks_.emplace(&parameter, parameter.blocks());
    else if (!blocks_.contains(&parameter) && !values_.contains(&parameter))
      values_.emplace(&parameter, copy_of(parameter));
  }

 private:
  std::map<Parameter*, at::Tensor> values_;  // only the first copy of each is kept
  std::map<Parameter*, std::shared_ptr<const tensor::Encoded>> blocks_;
  std::unique_ptr<Parameter> own_;
  Parameter** untied_ = nullptr;
};

// The slot of a tied head; null: the head has a separate weight.
const Slot* tied_head(const std::vector<Slot>& slots) {
  const auto found = std::ranges::find_if(slots, [](const Slot& slot) { return slot.module.tied; });
  return found == slots.end() ? nullptr : &*found;
}

const Slot& embedding_of(const std::vector<Slot>& slots) {
  return *std::ranges::find_if(
      slots, [](const Slot& slot) { return slot.module.kind == adapter::ModuleKind::embedding; });
}

void check_mergeable(const Slot& slot, const kernels::LowRank& factors) {
  const tensor::Encoded* const encoded = slot.weight->encoded();
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

// Blocks are never quantised again: an encoded weight gets its terms as it is decoded, or becomes numbers.
void merge(const kernels::Projection& p, Merged as) {
  if (p.weight->encoded() == nullptr) {
    const bool experts = p.weight->shape().size() == 3;
    return experts ? kernels::merge_experts(*p.weight, p.low_rank) : kernels::merge(p);
  }
  p.weight->hold(kernels::merged_weight(p));
  if (as == Merged::numbers) p.weight->decode();
}

}  // namespace

std::vector<adapter::Module> modules_of(const std::vector<Slot>& slots) {
  std::vector<adapter::Module> modules;
  for (const Slot& slot : slots) modules.push_back(slot.module);
  return modules;
}

Adapter::Adapter(std::string name, config::LoraConfig config, adapter::Selection selection,
                 const std::vector<Slot>& slots, at::ScalarType type, at::Device device)
    : name_(std::move(name)),
      number_(next_number()),
      type_(type),
      config_(std::move(config)),
      selection_(std::move(selection)),
      slots_(slots) {
  for (const adapter::Target& target : selection_.targets) {
    const Slot& slot = slots_[target.module];
    if (!slot.takes_terms)
      fail(Status::unsupported, "{}: modules of its kind cannot have an adapter", slot.module.name);
    terms_.push_back({target.module, target.parameter});
    terms_.back().factors.scale = target.scaling;
    terms_.back().factors.dropout.rate = config_.lora_dropout;
  }
  tensors_ = adapter::tensors(config_, selection_, modules_of(slots_));
  for (const adapter::Tensor& tensor : tensors_) add(tensor, device);
  if (selection_.head_is_saved)
    replaced_.push_back({index_of(*tied_head(slots_)), false, own_weight(index_of(embedding_of(slots_)))});
  rewire();
}

void Adapter::add(const adapter::Tensor& tensor, at::Device device) {
  const auto factors = [&]() -> kernels::LowRank& { return term(tensor.module).factors; };
  switch (tensor.role) {
    case Role::table:
    case Role::copy:
      return;
    case Role::weight:
      return replace(tensor, false);
    case Role::bias:
      return replace(tensor, true);
    case Role::tokens:
      return add_tokens(tensor);
    case Role::a:
      factors().a = make(tensor, type_, device);
      return;
    case Role::b:
      factors().b = make(tensor, type_, device);
      return;
    case Role::b_bias:
      factors().bias = make(tensor, type_, device);
      return;
    // Changes of a magnitude per step are too small for bfloat16.
    case Role::magnitude:
      factors().magnitude = make(tensor, at::kFloat, device);
      return;
  }
}

void Adapter::add_tokens(const adapter::Tensor& tensor) {
  const Slot& slot = slots_[tensor.module];
  if (!slot.takes_rows) {
    fail_key("trainable_token_indices",
             "trainable_token_indices: {} is neither the input embedding nor the output head",
             slot.module.name);
  }
  const auto& all = selection_.tokens;
  const auto found = std::ranges::find_if(all, [&](const auto& one) { return one.first == tensor.module; });
  Parameter& table = *slot.weight;
  Parameter* const rows = make(tensor, at::promote_types(type_, table.dtype()), table.device());
  const at::Tensor ids = at::tensor(at::IntArrayRef(found->second), at::kLong).to(table.device());
  set(*rows, table.read()->index_select(0, ids));
  tokens_.push_back({tensor.module, {rows, found->second}});
  if (!selection_.head_has_tokens || slot.module.head) return;
  tokens_.push_back({index_of(*tied_head(slots_)), {rows, found->second}});
}

Adapter::Term& Adapter::term(size_t slot) { return *std::ranges::find(terms_, slot, &Term::slot); }

Parameter* Adapter::make(const adapter::Tensor& tensor, at::ScalarType type, at::Device device) {
  at::Tensor values = tensor::empty(tensor.shape, type, tensor::MemoryKind::weights, device);
  return parameters_.emplace_back(std::make_unique<Parameter>(tensor.name, std::move(values))).get();
}

void Adapter::replace(const adapter::Tensor& tensor, bool bias) {
  Parameter& original = bias ? *slots_[tensor.module].bias : *slots_[tensor.module].weight;
  adapter::Tensor own = tensor;
  own.shape = original.shape().vec();
  Parameter* const made = make(own, original.dtype(), original.device());
  set(*made, *original.read());
  made->decay = original.decay;
  made->embedding = original.embedding;
  made->padding_row = original.padding_row;
  replaced_.push_back({tensor.module, bias, made});
}

Parameter* Adapter::own_weight(size_t slot) const {
  const auto found =
      std::ranges::find_if(replaced_, [&](const Replacement& one) { return one.slot == slot && !one.bias; });
  return found != replaced_.end() ? found->own : nullptr;
}

void Adapter::rewire() {
  wiring_ = {};
  for (const Term& term : terms_)
    wiring_.terms.emplace(slots_[term.slot].weight, Wiring::Term{term.factors, term.slot});
  for (const Replacement& one : replaced_)
    if (slots_[one.slot].module.head && !one.bias)
      wiring_.head = one.own;
    else
      wiring_.own.insert_or_assign(original(one), one.own);
  for (const Tokens& one : tokens_)
    (slots_[one.slot].module.head ? wiring_.head_rows : wiring_.embedding_rows) = one.rows;
}

void Adapter::keep_copies_as_model() {
  for (const Replacement& one : replaced_)
    if (!one.own->has_gradient()) one.own->keep_copies(original(one)->keeps_copies());
}

std::vector<Parameter*> Adapter::parameters() const {
  std::vector<Parameter*> all;
  for (const auto& parameter : parameters_) all.push_back(parameter.get());
  return all;
}

std::vector<Adapter::Named> Adapter::named() const {
  std::vector<Named> all;
  for (const adapter::Tensor& tensor : tensors_) {
    if (tensor.role == Role::table || tensor.role == Role::copy) continue;
    all.push_back(
        {adapter::name_in_model(tensor, selection_, name_), parameters_[all.size()].get()});  // as add() made
  }
  for (const Table& table : tables_)
    all.push_back({adapter::table_in_model(slots_[table.slot].module.name, name_), table.own.get()});
  return all;
}

uint64_t Adapter::version() const {
  uint64_t sum = 0;
  for (const auto& parameter : parameters_) sum += parameter->version();
  for (const Table& table : tables_) sum += table.own->version();
  return sum;
}

std::vector<Parameter*> Adapter::kept_tables() const {
  std::vector<Parameter*> all;
  for (const Table& table : tables_) all.push_back(table.own.get());
  return all;
}

const Adapter::Table* Adapter::kept_table(size_t slot) const {
  const auto found = std::ranges::find(tables_, slot, &Table::slot);
  return found == tables_.end() ? nullptr : &*found;
}

// PEFT loads the embedding and the head that are saved with an adapter into the model. Here they are the
// adapter's if they differ from the model's. If the model was resized, rows that its own files lack are taken
// over.
void Adapter::take_tables(const adapter::AdapterFile& file) {
  const auto in_file = [&](const adapter::Tensor& tensor) {
    return tensor.role == Role::table && file.tensors().contains(tensor.name);
  };
  const Slot* const tied = tied_head(slots_);
  const bool head_counts = tied != nullptr && std::ranges::any_of(tensors_, [&](const auto& t) {
                             return in_file(t) && &slots_[t.module] == tied;
                           });
  std::vector<std::pair<Parameter*, at::Tensor>> added;
  std::vector<std::pair<size_t, at::Tensor>> kept;
  for (const adapter::Tensor& tensor : tensors_) {
    // PEFT sets the one weight of a tied model twice, the second time from the head.
    if (!in_file(tensor) || (head_counts && &slots_[tensor.module] != tied)) continue;
    const Slot& slot = slots_[tensor.module];
    Parameter& own = *slot.weight;
    const io::TensorView& view = file.tensors().at(tensor.name);
    at::Tensor values = tensor::empty(own.shape(), at::kFloat, tensor::MemoryKind::workspace);
    io::read_floats(view.type, view.data, 0, values.numel(), values.data_ptr<float>());
    values = values.to(own.dtype());
    const int64_t rows = own.size(0), known = slot.stored_rows < 0 ? rows : std::min(slot.stored_rows, rows);
    const at::Tensor ours = tensor::on_host(*own.read());
    const bool rehearsed = tensor::Rehearsal::current() != nullptr;  // its weights have no numbers
    if (rehearsed || at::equal(values.narrow(0, 0, known), ours.narrow(0, 0, known))) {
      if (known < rows) added.emplace_back(&own, values);
    } else if (!tensor.name.ends_with(
                   adapter::kOriginalModule)) {  // the copy of that module replaces this one
      kept.emplace_back(tensor.module, values);
    }
  }
  for (auto& [parameter, values] : added) set(*parameter, values);
  for (auto& [slot, values] : kept) keep_table(slot, values);
}

void Adapter::keep_table(size_t index, const at::Tensor& values) {
  const Slot* const tied = tied_head(slots_);
  const bool shared = tied != nullptr && (&slots_[index] == tied || &slots_[index] == &embedding_of(slots_));
  const Slot& slot = shared ? embedding_of(slots_) : slots_[index];
  Parameter& original = *slot.weight;
  auto own = std::make_unique<Parameter>(
      original.name,
      tensor::empty(original.shape(), original.dtype(), tensor::MemoryKind::weights, original.device()));
  set(*own, values);
  own->trainable = false;
  own->embedding = original.embedding;
  own->padding_row = original.padding_row;
  replaced_.push_back({index_of(slot), false, own.get()});
  if (shared) replaced_.push_back({index_of(*tied), false, own.get()});
  tables_.push_back({index_of(slot), std::move(own)});
}

void Adapter::load(const std::string& directory) {
  const auto file = adapter::open_weights(directory, tensors_);
  take_tables(*file);
  if (is_part_of_weights()) start_again(directory);
  at::Tensor room;
  for (const auto& parameter : parameters_) read_into(*parameter, *file, room);
  file->check();
  rewire();
}

kernels::Projection Adapter::projection(const Term& term) const {
  const Slot& slot = slots_[term.slot];
  return {.weight = slot.weight,
          .bias = slot.bias,
          .transposed = slot.module.kind == adapter::ModuleKind::conv1d ||
                        slot.module.kind == adapter::ModuleKind::embedding,
          .low_rank = term.factors};
}

// Whether this adapter gives head and embedding different values although they are one in the model.
bool Adapter::parts_tied_head() const {
  const Slot* const head = tied_head(slots_);
  if (head == nullptr) return false;
  const Slot& embedding = embedding_of(slots_);
  const auto changes = [&](const Slot& slot) {
    std::vector<const Parameter*> all;
    for (const Replacement& one : replaced_)
      if (one.slot == index_of(slot) && !one.bias) all.push_back(one.own);
    for (const Tokens& one : tokens_)
      if (&slots_[one.slot] == &slot) all.push_back(one.rows.rows);
    for (const Term& term : terms_)
      if (&slots_[term.slot] == &slot) all.push_back(term.factors.a);
    return all;
  };
  return changes(*head) != changes(embedding);
}

std::shared_ptr<void> Adapter::merged(Merged as, Parameter*& untied) {
  for (const Term& term : terms_) check_mergeable(slots_[term.slot], term.factors);
  auto before = std::make_shared<Originals>();
  if (parts_tied_head()) before->untie(*tied_head(slots_)->weight, untied);
  const auto changed = [&](Parameter* of_model, size_t slot) -> Parameter& {
    return untied != nullptr && slots_[slot].module.head ? *untied : *of_model;
  };
  for (const Replacement& one : replaced_) {
    Parameter& place = changed(original(one), one.slot);
    before->keep(place);
    if (place.encoded() != nullptr)
      place.hold(copy_of(*one.own));  // a copy, since terms may be merged into it
    else
      tensor::copy(*one.own->read(), *place.write());
  }
  for (const Tokens& one : tokens_) {
    Parameter& table = changed(slots_[one.slot].weight, one.slot);
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
  for (const Term& term : terms_)
    for (const Parameter* one : {term.factors.a, term.factors.b, term.factors.bias, term.factors.magnitude})
      see(one, slots_[term.slot].layer);
  for (const Replacement& one : replaced_) see(one.own, slots_[one.slot].layer);
  for (const Tokens& one : tokens_) see(one.rows.rows, slots_[one.slot].layer);
  return first;
}

bool Adapter::trains_only_terms(int64_t layer) const {
  const auto is_projection = [&](const Term& term) {
    const adapter::ModuleKind kind = slots_[term.slot].module.kind;
    return slots_[term.slot].layer != layer || kind == adapter::ModuleKind::linear ||
           kind == adapter::ModuleKind::conv1d;
  };
  return std::ranges::all_of(terms_, is_projection) &&
         std::ranges::none_of(replaced_, [&](const Replacement& one) {
           return slots_[one.slot].layer == layer && one.own->has_gradient();
         });
}

}  // namespace trl::model
