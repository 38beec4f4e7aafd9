// The adapters of a model, by name: all of them, the one that a forward uses, and the one that is trained.
#pragma once
#include <string_view>

#include "base/log.h"
#include "model/adapter/adapter.h"

namespace trl::model {

class Adapters {
 public:
  Adapters() = default;
  Adapters(std::vector<Slot> slots, std::string model_type, at::Device device)
      : slots_(std::move(slots)), model_type_(std::move(model_type)), device_(device) {}
  Adapters& operator=(Adapters&&) = default;

  // All modules with parameters, in the order of transformers' class.
  const std::vector<Slot>& slots() const { return slots_; }
  // Adds a new one, for the modules that the configuration selects; its values are not set yet. Throws
  // Error(invalid_config) if it does not fit the model, Error(invalid_argument) for a name that is taken or
  // invalid. log: gets warnings; may be null.
  Adapter& add(const std::string& name, const config::LoraConfig& config, at::ScalarType type,
               base::LogSink* log = nullptr);
  // Adds a saved one; on an error none is added.
  Adapter& open(const std::string& name, const std::string& directory, base::LogSink* log = nullptr,
                at::ScalarType type = at::kFloat);
  // Adds a frozen copy of an adapter's current values: the reference of a preference run that continues a
  // saved adapter.
  Adapter& copy(const std::string& name, const Adapter& of);
  void remove(std::string_view name);
  Adapter* find(std::string_view name) const;  // null: not found
  Adapter& get(std::string_view name) const;   // throws Error(not_found) naming the existing ones
  const std::vector<std::unique_ptr<Adapter>>& all() const { return all_; }

  // Sets the adapter of a forward that does not name one; null: the model without adapters.
  void use(Adapter* adapter);
  Adapter* in_use() const { return in_use_; }
  // Throws Error(busy) if another one is merged.
  void check_usable(const Adapter* adapter) const;
  // Sets the adapter that a trainer trains and a saved model contains; null: all of the model is trained.
  void train(Adapter* adapter) { trained_ = adapter; }
  Adapter* trained() const { return trained_; }
  // Merges one into the model's own weights, of which it keeps copies, until unmerge(): meanwhile every
  // forward computes with it and no other can be used. Weights in blocks become numbers of the model's dtype.
  // Throws Error(busy) if one is merged.
  void merge(Adapter& adapter);
  void unmerge();  // does nothing if none is merged
  const Adapter* merged() const { return merged_; }
  // The head of a tied model while an adapter that changes it is merged; null: the model's.
  Parameter* untied_head() const { return untied_head_; }
  // Merges this one into the model's weights for saving, until the result is destroyed: computing with them
  // is slow.
  std::shared_ptr<void> merged_to_save(Adapter& adapter);
  // Called by the model: its embedding and its head have this many rows from here on; its files differ.
  void resized(int64_t rows);

 private:
  void check_new(const std::string& name) const;
  Adapter& insert(const std::string& name, const config::LoraConfig& config, adapter::Selection selection,
                  at::ScalarType type, base::LogSink* log);

  std::vector<Slot> slots_;
  std::string model_type_;
  at::Device device_ = at::kCPU;
  std::vector<std::unique_ptr<Adapter>> all_;
  Adapter* in_use_ = nullptr;
  Adapter* trained_ = nullptr;
  Adapter* merged_ = nullptr;
  Parameter* untied_head_ = nullptr;
  std::shared_ptr<void> originals_;  // while one is merged
};

}  // namespace trl::model
