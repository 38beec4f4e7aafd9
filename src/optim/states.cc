#include "optim/states.h"

#include "optim/plain.h"
#include "tensor/memory/counted.h"
#include "tensor/memory/rehearsal.h"

namespace trl::optim {

namespace {

using config::OptimStates;

Codec codec_of(at::ScalarType type) { return type == at::kBFloat16 ? Codec::bf16 : Codec::f32; }

Codec codec_of(const Parameter& parameter, const StateKind& kind, const StateForm& form) {
  if (form.type == OptimStates::as_weights) return codec_of(parameter.dtype());
  const bool coded = form.type == OptimStates::eight_bit && parameter.count() >= kLeastCoded &&
                     (!parameter.embedding || form.eight_bit_embeddings);
  return coded ? kind.codes : Codec::f32;
}

at::ScalarType type_of(Codec codec) {
  return codec == Codec::f32 ? at::kFloat : codec == Codec::bf16 ? at::kBFloat16 : at::kByte;
}

int64_t blocks(int64_t count) { return (count + kBlock - 1) / kBlock; }

}  // namespace

Span span_of(const at::Tensor& numbers) { return {numbers.data_ptr(), codec_of(numbers.scalar_type())}; }

Span State::span() const {
  return {values.data_ptr(), codec, absmax.defined() ? absmax.data_ptr<float>() : nullptr};
}

at::Tensor State::read() const {
  return is_coded(codec) ? plain::decode(values, absmax, codec) : values.to(at::kFloat);
}

void State::write(const at::Tensor& next) const {
  if (is_coded(codec)) return plain::encode(next, codec, values, absmax);
  values.copy_(next);
}

States::States(const std::vector<Parameter*>& parameters, const std::vector<StateKind>& kinds, double initial,
               const StateForm& form)
    : kinds_(kinds), states_(parameters.size() * kinds.size()) {
  int64_t bytes = 0;
  for (size_t i = 0; i < kinds.size(); ++i) {
    for (size_t p = 0; p < parameters.size(); ++p)
      states_[p * kinds.size() + i].codec = codec_of(*parameters[p], kinds[i], form);
    bytes += flat_bytes(parameters, types(parameters, i));
  }
  if (!form.directory.empty())
    paged_ = std::make_shared<memory::PagedMemory>(form.directory, bytes, "the optimizer's states");
  for (size_t i = 0; i < kinds.size(); ++i) {
    const FlatViews flat = place(parameters, i);
    for (size_t p = 0; p < parameters.size(); ++p) {
      State& state = states_[p * kinds.size() + i];
      state.values = flat.views[p];
      if (initial != 0 && tensor::Rehearsal::current() == nullptr) state.values.fill_(initial);
      if (!is_coded(state.codec)) continue;
      state.absmax = tensor::zeros({blocks(parameters[p]->count())}, at::kFloat, base::MemoryKind::optimizer,
                                   parameters[p]->device());
    }
  }
}

std::vector<at::ScalarType> States::types(const std::vector<Parameter*>& parameters, size_t state) const {
  std::vector<at::ScalarType> types;
  for (size_t p = 0; p < parameters.size(); ++p) types.push_back(type_of(of(p, state).codec));
  return types;
}

FlatViews States::place(const std::vector<Parameter*>& parameters, size_t state) {
  if (!paged()) return flat_views(parameters, types(parameters, state), base::MemoryKind::optimizer);
  return flat_views(parameters, types(parameters, state), [&](int64_t count, at::ScalarType type) {
    char* const begin = paged_->data() + placed_;
    placed_ += count * static_cast<int64_t>(c10::elementSize(type));
    return at::from_blob(
        begin, {count}, [keep = paged_](void*) {}, at::TensorOptions(type));
  });
}

void States::append(size_t parameter, const std::string& name, std::vector<StateTensor>& out) const {
  for (size_t i = 0; i < kinds_.size(); ++i) {
    const State& state = of(parameter, i);
    const std::string own = name + "." + kinds_[i].name;
    out.push_back({own, state.values, paged_});
    if (state.absmax.defined()) out.push_back({own + ".absmax", state.absmax});
  }
}

void States::release(size_t parameter, int64_t begin, int64_t count) const {
  if (!paged()) return;
  for (size_t i = 0; i < kinds_.size(); ++i) {
    const State& state = of(parameter, i);
    const int64_t size = element_size(state.codec);
    paged_->release(static_cast<const char*>(state.values.data_ptr()) + begin * size, count * size);
  }
}

int64_t States::paged_bytes(size_t parameter, int64_t count) const {
  int64_t bytes = 0;
  for (size_t i = 0; paged() && i < kinds_.size(); ++i) bytes += count * element_size(of(parameter, i).codec);
  return bytes;
}

void States::check() const {
  if (paged()) paged_->check();
}

}  // namespace trl::optim
