// Reads which layers have a window, and the experts.
#include "base/error.h"
#include "model/gguf/config_reader.h"
#include "model/gguf/names.h"

namespace trl::model {

namespace {

using base::Json;

constexpr int64_t kMostExperts = 1024;  // the limit of llama.cpp

}  // namespace

void GgufConfigReader::windows() {
  if (family_->window.rule == WindowRule::none || family_->window.on.key != nullptr) return;
  const int64_t size = integer_or("attention.sliding_window", row_->window);
  config_["sliding_window"] = size > 0 ? Json(size) : Json();
  if (row_->window_pattern == 0) return;
  const std::vector<bool> slides = sliding_layers(size);
  Json types = Json::array();
  for (const bool one : slides) types.push_back(one ? "sliding_attention" : "full_attention");
  config_["layer_types"] = types;
}

// The pattern is a flag for each layer, or a number n: all but every n-th layer have a window.
std::vector<bool> GgufConfigReader::sliding_layers(int64_t window) const {
  constexpr std::string_view kPattern = "attention.sliding_window_pattern";
  if (layers_ < 0 || layers_ > std::ssize(file_.tensors()))
    fail(Status::format, "{}: {} is {}, and there are {} tensors", Place::in(file_.path()),
         key("block_count"), layers_, file_.tensors().size());
  std::vector<bool> slides(static_cast<size_t>(layers_), false);
  if (window == 0) return slides;
  const io::GgufValue* given = file_.find(key(kPattern));
  const auto* flags = given != nullptr ? std::get_if<std::vector<int64_t>>(given) : nullptr;
  if (flags != nullptr && std::ssize(*flags) != layers_)
    fail(Status::format, "{}: {} has {} entries for {} layers", Place::in(file_.path()), key(kPattern),
         flags->size(), layers_);
  const int64_t n = flags != nullptr ? 0 : integer_or(kPattern, row_->window_pattern);
  for (size_t i = 0; i < slides.size(); ++i)
    slides[i] = flags != nullptr ? (*flags)[i] != 0 : n < 1 || (static_cast<int64_t>(i) + 1) % n != 0;
  return slides;
}

void GgufConfigReader::experts() {
  const Experts& keys = family_->experts;
  const int64_t count = integer("expert_count");
  if (count > kMostExperts)
    fail(Status::format, "{}: {} is {}; at most {} are read", Place::in(file_.path()), key("expert_count"),
         count, kMostExperts);
  const int64_t width = expert_width(count);
  config_[family_->model_type == "mixtral" ? "num_local_experts" : keys.count.key] = count;
  config_[keys.chosen.key] = integer("expert_used_count");
  config_[keys.width.key] = width;
  if (keys.normalised.key != nullptr) config_[keys.normalised.key] = row_->normalised;
  if (family_->names.shared_router.empty()) return;
  const auto shared = file_.tensors().find("blk.0.ffn_up_shexp.weight");
  if (shared == file_.tensors().end() || shared->second.shape.size() != 2)
    fail(Status::format, "{}: tensor blk.0.ffn_up_shexp.weight is missing, or not a matrix",
         Place::in(file_.path()));
  config_[keys.shared_width.key] = shared->second.shape.front();
}

int64_t GgufConfigReader::expert_width(int64_t count) const {
  const GgufPlace place{"blk.0.ffn_up_exps.weight", 0};
  const auto all = file_.tensors().find(place.name), end = file_.tensors().end();
  const auto single = all == end ? file_.tensors().find(single_expert_name(place)) : end;
  if (all == end && single == end)
    fail(Status::format, "{}: tensor {} is missing", Place::in(file_.path()), place.name);
  const auto& [name, tensor] = all != end ? *all : *single;
  const std::vector<int64_t>& shape = tensor.shape;
  if (all != end ? shape.size() == 3 && shape[0] == count : shape.size() == 2) return shape[shape.size() - 2];
  fail(Status::format, "{}: tensor {} has shape [{}], {} is {}", Place::in(file_.path()), name,
       fmt::join(shape, ", "), key("expert_count"), count);
}

}  // namespace trl::model
