// Names of weights in the files, and the messages about a weight that is not there as it must be.
#include "model/weights/weights.h"

#include <algorithm>
#include <string_view>

#include "base/error.h"

namespace trl::model {

namespace {

// Returns "model." for "model.embed_tokens".
std::string base_prefix(const Family& family) {
  const std::string_view name = family.names.embedding;
  return std::string(name.substr(0, name.find('.') + 1));
}

std::vector<std::string> names_of(const Family& family, const std::string& name) {
  std::vector<std::string> names = {name};
  for (const OtherName& other : family.other_names) {
    const size_t at = other.inside ? name.find(other.ours) : name.starts_with(other.ours) ? 0 : name.npos;
    if (at == name.npos) continue;
    names.push_back(std::string(name).replace(at, other.ours.size(), other.theirs));
  }
  return names;
}

// Returns "up_proj.weight" for "model.layers.0.mlp.up_proj.weight".
std::string_view last_parts(std::string_view name) {
  const size_t dot = name.rfind('.');
  const size_t before = dot == name.npos || dot == 0 ? name.npos : name.rfind('.', dot - 1);
  return before == name.npos ? name : name.substr(before + 1);
}

// For messages about a missing tensor: "the files have a, b, c and 3 more".
std::string names_there(const WeightSource& source, const std::string& name) {
  constexpr size_t kShown = 3;
  std::vector<std::string> names = source.others({});
  if (names.empty()) return "the files have no tensors";
  const std::string_view last = last_parts(name);
  std::stable_partition(names.begin(), names.end(),
                        [&](const std::string& other) { return other.ends_with(last); });
  const size_t shown = std::min(kShown, names.size()), more = names.size() - shown;
  names.resize(shown);
  return fmt::format("the files have {}{}", fmt::join(names, ", "),
                     more > 0 ? fmt::format(" and {} more", more) : "");
}

}  // namespace

std::string stored_name(const WeightSource& source, const Family& family, const std::string& name) {
  if (source.shape(name) != nullptr) return name;
  const std::string base = base_prefix(family);
  for (const std::string& own : names_of(family, name)) {
    const std::string shorter = own.starts_with(base) ? own.substr(base.size()) : own;
    for (const std::string& candidate : {own, shorter, base + own})
      if (source.shape(candidate) != nullptr) return candidate;
  }
  return name;
}

bool is_buffer(std::string_view name) {
  for (const std::string_view end :
       {"rope_freqs.weight", "rope_factors_long.weight", "rope_factors_short.weight", "rotary_emb.inv_freq",
        "attn.bias", "attn.masked_bias", "attention.bias", "attention.masked_bias"})
    if (name.ends_with(end)) return true;
  return false;
}

void WeightSource::need(const std::string& name, const std::vector<int64_t>& wanted) const {
  const std::vector<int64_t>* found = shape(name);
  if (found == nullptr) fail(Status::format, "{} is missing; {}", place(name), names_there(*this, name));
  if (*found == wanted) return;
  fail(Status::format, "{} has shape [{}], {} for [{}]", place(name), fmt::join(*found, ", "), asks(name),
       fmt::join(wanted, ", "));
}

}  // namespace trl::model
