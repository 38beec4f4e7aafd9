// The adapters of a model, by name: which there are, which one its layers compute with, and which one is
// trained.
#pragma once
#include <optional>
#include <string_view>

#include "base/log.h"
#include "model/adapter.h"

namespace trl::model {

class Adapters {
 public:
  Adapters() = default;
  Adapters(std::vector<Slot> slots, std::string model_type, at::Device device)
      : slots_(std::move(slots)), model_type_(std::move(model_type)), device_(device) {}
  Adapters& operator=(Adapters&&) = default;

  // All modules with parameters, in the order of transformers' class.
  const std::vector<Slot>& slots() const { return slots_; }
  // A new one, for the modules that the configuration selects; its values are not set yet. Throws
  // Error(invalid_config) where it does not fit the model, Error(invalid_argument) for a name that is taken
  // or is not one. log: gets warnings; may be null.
  Adapter& add(const std::string& name, const config::LoraConfig& config, at::ScalarType type,
               base::LogSink* log = nullptr);
  // One that was saved; on an error there is none.
  Adapter& open(const std::string& name, const std::string& directory, base::LogSink* log = nullptr,
                at::ScalarType type = at::kFloat);
  // A frozen copy of an adapter as it is now: the reference of a preference run that continues a saved
  // adapter.
  Adapter& copy(const std::string& name, const Adapter& of);
  void remove(std::string_view name);
  Adapter* find(std::string_view name) const;  // null: there is none
  Adapter& get(std::string_view name) const;   // Error(not_found) naming those that there are
  const std::vector<std::unique_ptr<Adapter>>& all() const { return all_; }

  // The adapter of a forward that does not name one; null: the model alone.
  void use(Adapter* adapter);
  Adapter* in_use() const { return in_use_; }
  // The same until the result is destroyed; then the previous one is used again.
  std::shared_ptr<void> use_meanwhile(Adapter* adapter);
  // The one that a trainer trains, and a saved model is; null: none, all of the model.
  void train(Adapter* adapter) { trained_ = adapter; }
  Adapter* trained() const { return trained_; }
  // Merges one into the model's own weights, which keeps copies of them, until unmerge(): then every forward
  // computes with it and no other can be used. Weights in blocks become numbers of the model's dtype.
  // Error(busy): one is merged.
  void merge(Adapter& adapter);
  void unmerge();  // does nothing where none is merged
  const Adapter* merged() const { return merged_; }
  // Until the result goes, the model's weights are those with this one merged, to be saved: slow to compute
  // with.
  std::shared_ptr<void> merged_to_save(Adapter& adapter);
  // For the model: its embedding and its head have this many rows from here on; its files have others.
  void resized(int64_t rows);
  // For the model: its layers compute with this one from here on, with the dropout of this forward.
  void enter(Adapter* adapter, std::optional<uint64_t> dropout_key = {});

 private:
  void check_new(const std::string& name) const;
  std::vector<adapter::Module> modules() const;
  Adapter& insert(const std::string& name, const config::LoraConfig& config, adapter::Selection selection,
                  at::ScalarType type, base::LogSink* log);

  std::vector<Slot> slots_;
  std::string model_type_;
  at::Device device_ = at::kCPU;
  std::vector<std::unique_ptr<Adapter>> all_;
  Adapter* in_use_ = nullptr;
  Adapter* trained_ = nullptr;
  Adapter* entered_ = nullptr;
  Adapter* merged_ = nullptr;
  std::shared_ptr<void> originals_;  // while it is merged
  std::optional<uint64_t> key_;
};

}  // namespace trl::model
