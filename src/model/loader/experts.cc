// Loads the experts of a layer, as numbers or in blocks, and their router.
#include "base/error.h"
#include "kernels/weight/stored_weight.h"
#include "model/config/model_config.h"
#include "model/loader/loader.h"
#include "tensor/memory/counted.h"

namespace trl::model {

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
    const auto stored = [&, expert =
                                prefix + fmt::format(fmt::runtime(names_.expert), i)](std::string_view name) {
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

}  // namespace trl::model
