#include "model/decoding/narrow_weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "model/model.h"

namespace trl::model {

namespace {

constexpr std::pair<std::string_view, NarrowType> kNarrowTypes[] = {
    {"bfloat16", NarrowType::bfloat16}, {"int8", NarrowType::int8}, {"int4", NarrowType::int4}};

std::string_view type_name(NarrowType type) {
  return std::ranges::find(kNarrowTypes, type, [](const auto& one) { return one.second; })->first;
}

bool is_exact(const tensor::Parameter& weight, NarrowType type) {
  return type == NarrowType::bfloat16 && weight.encoded() == nullptr && weight.dtype() == at::kBFloat16;
}

}  // namespace

std::optional<NarrowType> narrow_type(std::string_view name) {
  for (const auto& [own, type] : kNarrowTypes)
    if (own == name) return type;
  return {};
}

NarrowWeights::NarrowWeights(NarrowType type, const std::vector<Source>& weights) : type_(type) {
  for (const auto& [weight, transposed] : weights) {
    if (is_exact(*weight, type) || of(weight) != nullptr) continue;
    copies_.try_emplace(weight, *weight, transposed, type);
    order_.push_back(weight);
  }
}

void NarrowWeights::refresh() {
  for (auto& [weight, copy] : copies_) copy.refresh();
}

int64_t NarrowWeights::bytes() const {
  int64_t sum = 0;
  for (const auto& [weight, copy] : copies_) sum += copy.bytes();
  return sum;
}

NarrowWeights::Errors NarrowWeights::errors() const {
  Errors result;
  double values = 0, errors = 0;
  for (const tensor::Parameter* const weight : order_) {
    const kernels::NarrowErrors& own = of(weight)->errors();
    values += own.values;
    errors += own.errors;
    if (own.worst <= result.largest) continue;
    result.largest = own.worst;
    result.largest_in = weight->name;
  }
  if (values > 0) result.mean = std::sqrt(errors / values);
  return result;
}

std::string NarrowWeights::summary() const {
  const Errors all = errors();
  std::string text = fmt::format("{} copies of {} weights, {:.0f} MB", type_name(type_), order_.size(),
                                 static_cast<double>(bytes()) / 1e6);
  if (order_.empty()) return text;
  if (all.largest == 0) return text + ", without an error";
  return text + fmt::format(": relative error {:.2g}, at most {:.2g} for an output of {}", all.mean,
                            all.largest, all.largest_in);
}

NarrowWeights Model::narrow_weights(NarrowType type, bool with_head) const {
  if (!device_.is_cpu()) {
    fail_key(
        "generation_dtype",
        "generation_dtype: {} is refused, because the model is on {}, and products with such copies of its "
        "weights are the CPU's: leave it out, or give use_cpu: true",
        type_name(type), device_.str());
  }
  std::vector<NarrowWeights::Source> weights;
  for (const auto& layer : layers_) {
    for (const kernels::Projection* p : layer->projections()) weights.push_back({p->weight, p->transposed});
    if (!layer->experts) continue;
    for (tensor::Parameter* w : {layer->experts->weights.gate_up, layer->experts->weights.down})
      if (kernels::NarrowWeight::takes(*w)) weights.push_back({w, false});
  }
  if (with_head) weights.push_back({own_head(), false});
  return {type, weights};
}

}  // namespace trl::model
