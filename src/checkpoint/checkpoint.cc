#include "checkpoint/checkpoint.h"

#include <algorithm>

#include "adapter/tensors.h"
#include "base/error.h"
#include "base/files/hash.h"
#include "tensor/device.h"

namespace trl::checkpoint {

namespace {

using base::Json;
using File = base::StagedDirectory::File;

constexpr std::string_view kTrainerState = "trainer_state.json";
constexpr std::string_view kState = "trl_state.json";
constexpr std::string_view kSource = "source.state";
constexpr std::string_view kOptimizer = "optimizer.safetensors";
constexpr int kFormat = 1;  // version of trl_state.json and optimizer.safetensors; README.md

// Releases each part from memory after it is written.
io::NamedTensor paged(const optim::StateTensor& state) {
  const auto size = static_cast<int64_t>(state.value.element_size());
  const auto fill = [state, size](int64_t first, int64_t count, char* out) {
    const char* const from = static_cast<const char*>(state.value.data_ptr()) + first * size;
    std::memcpy(out, from, static_cast<size_t>(count * size));
    state.paged->release(from, count * size);
  };
  return {state.name, element_type(state.value), state.value.sizes().vec(), nullptr, fill};
}

// host: owns the memory that the result points to
std::vector<io::NamedTensor> named(const std::vector<optim::StateTensor>& state,
                                   std::vector<at::Tensor>& host) {
  std::vector<io::NamedTensor> tensors;
  for (const optim::StateTensor& part : state) {
    if (part.paged) {
      tensors.push_back(paged(part));
      continue;
    }
    tensors.push_back(named_tensor(part.name, host.emplace_back(tensor::on_host(part.value))));
  }
  return tensors;
}

// A tensor in memory and its new values.
struct Copy {
  at::Tensor to;
  const io::TensorView* from;
  const memory::PagedMemory* paged = nullptr;  // set if `to` is in a file
};

// Accepts bfloat16 for the float32 rows of an adapter's tokens, and for their states: checkpoints of older
// versions have them in the type of the model.
bool widens(const std::string& name, const at::Tensor& to, const io::TensorView& from) {
  return to.scalar_type() == at::kFloat && from.type == io::ElementType::bf16 &&
         name.find(adapter::kTokenRows) != name.npos;
}

Copy checked(const std::string& name, const at::Tensor& to, const io::TensorView* from,
             const std::string& file) {
  if (from == nullptr) fail(Status::format, "{}: tensor {} is missing", Place::in(file), name);
  if (from->shape != to.sizes().vec() || (from->type != element_type(to) && !widens(name, to, *from))) {
    fail(Status::invalid_argument, "{}: tensor {} is {} [{}], this run has {} [{}]", Place::in(file), name,
         from->type_name, fmt::join(from->shape, ", "), io::element_name(element_type(to)),
         fmt::join(to.sizes().vec(), ", "));
  }
  return {to, from};
}

void apply(const std::vector<Copy>& copies) {
  for (const Copy& copy : copies) {
    base::MappedFile::need(copy.from->stored());
    if (copy.from->type == element_type(copy.to)) {
      tensor::copy_bytes(copy.to, copy.from->data);
    } else {
      at::Tensor wide = at::empty(copy.to.sizes(), at::kFloat);
      io::read_floats(copy.from->type, copy.from->data, 0, wide.numel(), wide.data_ptr<float>());
      copy.to.copy_(wide);
    }
    if (copy.paged != nullptr)
      copy.paged->release(copy.to.data_ptr(), static_cast<int64_t>(copy.to.nbytes()));
    base::MappedFile::drop(copy.from->stored());
  }
}

const io::TensorView* find_tensor(const io::Safetensors& file, const std::string& name) {
  const auto found = file.tensors().find(name);
  return found == file.tensors().end() ? nullptr : &found->second;
}

// The weights in a checkpoint: the model's, or those of the adapter that is trained on it.
class StoredWeights {
 public:
  StoredWeights(const std::string& directory, model::Model& model) : directory_(directory), model_(model) {
    if (model.adapters().trained() != nullptr) {
      stored_ = model.adapters().trained()->stored();
      adapter_.emplace(base::join_path(directory, adapter::kWeightsFile), true);
      return;
    }
    parameters_ = model.parameters();
    weights_.emplace(io::Weights::open_directory(directory));
    for (tensor::Parameter* parameter : parameters_) values_.push_back(parameter->write());
  }

  std::vector<Copy> copies() const {
    std::vector<Copy> copies;
    for (const auto& [name, values] : stored_)
      copies.push_back(checked(name, values, find(name), directory_));
    for (size_t i = 0; i < parameters_.size(); ++i)
      for (const model::StoredPart& part : model_.stored(*parameters_[i]))
        copies.push_back(checked(part.name, part.of(*values_[i]), find(part.name), directory_));
    return copies;
  }
  void check() const {
    if (weights_) weights_->check();
    if (adapter_) adapter_->check();
  }

  // Call after the copies were made.
  void finish() const {
    if (adapter_) model_.adapters().trained()->restore(stored_);
  }

 private:
  const io::TensorView* find(const std::string& name) const {
    return weights_ ? weights_->find(name) : find_tensor(*adapter_, name);
  }

  const std::string& directory_;
  model::Model& model_;
  std::optional<io::Weights> weights_;
  std::optional<io::Safetensors> adapter_;
  std::vector<tensor::Parameter*> parameters_;
  std::vector<tensor::Writing> values_;
  std::vector<model::Adapter::Stored> stored_;
};

void check_owner(const std::string& directory, const std::string& run) {
  if (!base::is_directory(directory)) return;
  std::optional<Manifest> manifest;
  try {
    manifest = read_manifest(directory);
  } catch (const Error&) {
    return;  // one of ours, damaged
  }
  if (!manifest && lost_manifest(directory)) return;
  if (manifest && manifest->run == run) return;
  fail(Status::io, "{}: {}; nothing was written there: give another output_dir, or move it away", directory,
       manifest ? "is a checkpoint of another run" : "exists already and is not a checkpoint of this run");
}

std::string hex(uint64_t value) { return fmt::format("{:016x}", value); }

// Returns the checksum of the manifest's own content.
std::string own_sum(const Json& run, const Json& files) {
  return hex(base::xxh3_64(Json{{"run", run}, {"files", files}}.dump()));
}

// Throws Error(format) naming the first file that is missing, truncated or changed.
void verify(const std::string& directory, const Manifest& manifest) {
  for (const File& file : manifest.files) {
    const std::string path = base::join_path(directory, file.name);
    if (!base::file_exists(path))
      fail(Status::format, "{}: the checkpoint is damaged: the file is missing", Place::in(path));
    const uint64_t size = base::file_size(path);
    if (size != file.size) {
      fail(Status::format, "{}: the checkpoint is damaged: the file has {} bytes instead of {}",
           Place::in(path), size, file.size);
    }
    if (base::file_xxh3(path) != file.xxh3) {
      fail(Status::format,
           "{}: the checkpoint is damaged: the file has changed since it was written (checksum)",
           Place::in(path));
    }
  }
}

}  // namespace

void save_checkpoint(const std::string& directory, const Contents& contents, const base::WriteFault* fault) {
  check_owner(directory, contents.run);
  base::StagedDirectory staged(directory, fault);
  if (const model::Adapter* const adapter = contents.model->adapters().trained()) {
    write_adapter(staged, *adapter, contents.files);
    write_card(staged, *adapter, contents.files, contents.tags);
  } else {
    write_model(staged, *contents.model, contents.files, contents.max_shard_bytes);
  }
  staged.write(kTrainerState, contents.trainer_state);
  if (contents.resumable) {
    staged.write(kOptimizer, [&](base::FileWriter& writer) {
      std::vector<at::Tensor> host;
      io::write_safetensors(writer, named(contents.optimizer, host));
    });
    Json state = {{"format", kFormat}};
    state.update(contents.state);
    staged.write(kState, state.dump(2) + "\n");
    if (!contents.source_state.empty()) staged.write(kSource, contents.source_state);
  }
  write_manifest(staged, contents.run);
  staged.commit_whole();
}

Manifest resumable(const std::string& directory) {
  if (!base::is_directory(directory))
    fail(Status::not_found, "{}: there is no such checkpoint", Place::in(directory));
  std::optional<Manifest> manifest = read_manifest(directory);
  if (!manifest) {
    fail(Status::format,
         "{}: not a libtrl checkpoint that can be resumed (it has no checksums.json); a model directory is "
         "given as model_name_or_path",
         Place::in(directory));
  }
  return std::move(*manifest);
}

Checkpoint::Checkpoint(std::string directory)
    : directory_(std::move(directory)), manifest_(resumable(directory_)) {
  verify(directory_, manifest_);
}

std::string Checkpoint::trainer_state() const {
  return base::read_file(base::join_path(directory_, kTrainerState));
}

Json Checkpoint::state() const {
  const std::string path = base::join_path(directory_, kState);
  if (!base::file_exists(path)) {
    fail(
        Status::format,
        "{}: holds the model alone (save_only_model), so it cannot be resumed; give it as model_name_or_path",
        directory_);
  }
  Json state = base::read_json_file(path);
  if (state.value("format", 0) != kFormat) {
    fail(Status::unsupported, "{}: format {} is not known to this version, which reads {}", Place::in(path),
         state.value("format", 0), kFormat);
  }
  return state;
}

std::string Checkpoint::source_state() const {
  const std::string path = base::join_path(directory_, kSource);
  return base::file_exists(path) ? base::read_file(path) : std::string();
}

bool Checkpoint::has(const std::vector<optim::StateTensor>& optimizer) const {
  const io::Safetensors states(base::join_path(directory_, kOptimizer), true);
  return std::ranges::all_of(optimizer,
                             [&](const auto& part) { return states.tensors().contains(part.name); });
}

void Checkpoint::load_model(model::Model& model) const {
  const StoredWeights stored(directory_, model);
  apply(stored.copies());
  stored.check();
  stored.finish();
}

void Checkpoint::load(model::Model& model, const std::vector<optim::StateTensor>& optimizer) const {
  const StoredWeights stored(directory_, model);
  const io::Safetensors states(base::join_path(directory_, kOptimizer), true);
  std::vector<Copy> copies = stored.copies();
  for (const optim::StateTensor& part : optimizer) {
    copies.push_back(checked(part.name, part.value, find_tensor(states, part.name), states.path()));
    copies.back().paged = part.paged.get();
  }
  apply(copies);
  stored.check();
  states.check();
  stored.finish();
}

void write_manifest(base::StagedDirectory& staged, const std::string& run) {
  Json files = Json::object();
  for (const File& file : staged.written())
    files[file.name] = {{"size", file.size}, {"xxh3", hex(file.xxh3)}};
  const Json manifest = {{"run", run}, {"files", files}, {"xxh3", own_sum(run, files)}};
  staged.write(kManifestName, manifest.dump(2) + "\n");
}

std::optional<Manifest> read_manifest(const std::string& directory) {
  const std::string path = base::join_path(directory, kManifestName);
  if (!base::file_exists(path)) return std::nullopt;
  const Json json = base::read_json_file(path);
  try {
    Manifest manifest{json.at("run").get<std::string>(), {}};
    if (json.contains("xxh3") && json["xxh3"] != own_sum(json["run"], json.at("files")))
      fail(Status::format,
           "{}: the checkpoint is damaged: the file has changed since it was written (checksum)",
           Place::in(path));
    for (const auto& [name, file] : json.at("files").items()) {
      if (!base::is_plain_path(name))  // a manifest cannot be trusted
        fail(Status::format, "{}: \"{}\" is not the name of a file beside it", Place::in(path), name);
      const std::string sum = file.at("xxh3").get<std::string>();
      size_t used = 0;
      const uint64_t value = std::stoull(sum, &used, 16);
      if (used != sum.size()) fail(Status::format, "{}: \"{}\" is not a checksum", Place::in(path), sum);
      manifest.files.push_back({name, file.at("size").get<uint64_t>(), value});
    }
    return manifest;
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {  // thrown by nlohmann or stoull
    fail(Status::format, "{}: not a list of checksums: {}", Place::in(path), error.what());
  }
}

bool lost_manifest(const std::string& directory) {
  return base::file_exists(base::join_path(directory, "trl_state.json")) ||
         base::list_directory(directory).empty();
}

}  // namespace trl::checkpoint
