// Loads the values of a saved adapter, and the embedding and head that its files bring.
#include <algorithm>

#include "base/error.h"
#include "model/adapter/adapter.h"
#include "model/adapter/slots.h"
#include "tensor/device.h"
#include "tensor/memory/counted.h"
#include "tensor/memory/rehearsal.h"

namespace trl::model {

namespace {

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

}  // namespace

// PEFT loads the embedding and the head that are saved with an adapter into the model. Here they are the
// adapter's if they differ from the model's. If the model was resized, rows that its own files lack are taken
// over.
void Adapter::take_tables(const adapter::AdapterFile& file) {
  const auto in_file = [&](const adapter::Tensor& tensor) {
    return tensor.role == adapter::Role::table && file.tensors().contains(tensor.name);
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
  for (auto& [parameter, values] : added) write_values(*parameter, values);
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
  write_values(*own, values);
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

}  // namespace trl::model
