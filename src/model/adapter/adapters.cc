#include "model/adapter/adapters.h"

#include <algorithm>

#include "adapter/config_file.h"
#include "base/error.h"
#include "base/text/nearest.h"
#include "engine/sampling.h"

namespace trl::model {

namespace {

// Names are used in paths of files and in PEFT's names of modules.
bool is_name(std::string_view name) {
  return !name.empty() && name.size() <= 64 && std::ranges::all_of(name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
  });
}

}  // namespace

Adapter& Adapters::add(const std::string& name, const config::LoraConfig& config, at::ScalarType type,
                       base::LogSink* log) {
  check_new(name);
  const std::vector<adapter::Module> all = modules_of(slots_);
  const config::LoraConfig own = adapter::with_stacked_experts(config, all, model_type_);
  return insert(name, own, adapter::select(own, all, model_type_), type, log);
}

Adapter& Adapters::open(const std::string& name, const std::string& directory, base::LogSink* log,
                        at::ScalarType type) {
  const std::vector<adapter::Module> all = modules_of(slots_);
  const config::LoraConfig config = adapter::read_config(directory, all, model_type_);
  check_new(name);
  adapter::Selection selection = adapter::select_saved(directory, config, all, model_type_);
  Adapter& added = insert(name, config, std::move(selection), type, log);
  try {
    added.load(directory);
  } catch (...) {
    remove(name);
    throw;
  }
  return added;
}

Adapter& Adapters::copy(const std::string& name, const Adapter& of) {
  check_new(name);
  Adapter& made = insert(name, of.config(), of.selection(), of.type(), nullptr);
  made.copy(of);
  return made;
}

void Adapters::check_new(const std::string& name) const {
  if (!is_name(name)) {
    fail(Status::invalid_argument,
         "adapter name \"{}\": up to 64 of the letters a to z, digits, _ and - are accepted", name);
  }
  if (name == engine::kNoAdapter)
    fail(Status::invalid_argument, "adapter name \"{}\": it stands for the model without an adapter", name);
  if (find(name) != nullptr) fail(Status::invalid_argument, "the model already has an adapter \"{}\"", name);
}

Adapter& Adapters::insert(const std::string& name, const config::LoraConfig& config,
                          adapter::Selection selection, at::ScalarType type, base::LogSink* log) {
  if (log != nullptr)
    for (const std::string& warning : selection.warnings) log->warning("adapter", "{}", warning);
  return *all_.emplace_back(
      std::make_unique<Adapter>(name, config, std::move(selection), slots_, type, device_));
}

void Adapters::remove(std::string_view name) {
  Adapter& gone = get(name);
  if (merged_ == &gone) unmerge();
  if (in_use_ == &gone) in_use_ = nullptr;
  if (trained_ == &gone) trained_ = nullptr;
  std::erase_if(all_, [&](const auto& one) { return one.get() == &gone; });
}

void Adapters::check_usable(const Adapter* adapter) const {
  if (merged_ != nullptr && adapter != merged_) {
    fail(Status::busy, "adapter \"{}\" is merged into the model: unmerge it before {} is used",
         merged_->name(), adapter == nullptr ? "the model alone" : "another one");
  }
}

void Adapters::use(Adapter* adapter) {
  check_usable(adapter);
  in_use_ = adapter;
}

void Adapters::merge(Adapter& adapter) {
  if (merged_ != nullptr) fail(Status::busy, "adapter \"{}\" is merged already", merged_->name());
  originals_ = adapter.merged(Merged::numbers, untied_head_);
  merged_ = in_use_ = &adapter;
}

std::shared_ptr<void> Adapters::merged_to_save(Adapter& adapter) {
  return adapter.merged(Merged::saving, untied_head_);
}

void Adapters::unmerge() {
  merged_ = nullptr;
  originals_.reset();
}

Adapter* Adapters::find(std::string_view name) const {
  const auto found = std::ranges::find_if(all_, [&](const auto& one) { return one->name() == name; });
  return found == all_.end() ? nullptr : found->get();
}

Adapter& Adapters::get(std::string_view name) const {
  if (Adapter* const found = find(name)) return *found;
  std::vector<std::string_view> names;
  for (const auto& one : all_) names.push_back(one->name());
  fail(Status::not_found, "the model has no adapter \"{}\"; it has {}", name,
       names.empty() ? "none" : base::join(names));
}

void Adapters::resized(int64_t rows) {
  for (Slot& slot : slots_) {
    if (!slot.takes_rows) continue;
    int64_t& own = slot.module.head ? slot.module.out : slot.module.in;
    if (slot.stored_rows < 0) slot.stored_rows = own;
    own = rows;
  }
}

}  // namespace trl::model
