#include "entry/model_object.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>

#include "adapter/config_file.h"
#include "base/error.h"
#include "base/memory/system_memory.h"
#include "base/text/number.h"
#include "checkpoint/save.h"
#include "config/lora_config.h"
#include "config/model_options.h"
#include "entry/boundary.h"
#include "entry/generator_object.h"
#include "entry/tensors.h"
#include "generate/sampling.h"
#include "tensor/device.h"
#include "tensor/memory/counted.h"
#include "train/scoring/scores.h"

namespace trl::entry {

namespace {

// Gives the pages back once: pages that are resident later have been needed since. Returns the resident bytes
// before.
int64_t give_back() {
  static const int64_t before = [] {
    const int64_t bytes = base::resident_bytes();
    base::give_back_pages();
    return bytes;
  }();
  return before;
}

// A mapped model is opened beside that of a run, before its plan.
std::atomic<bool> model_was_opened = false;

// TRL trains factors in bfloat16 above a model that bitsandbytes holds, whether an option asked for that or
// the checkpoint was saved so.
at::ScalarType factor_type(model::Model& model, const config::Config& config) {
  const bool held = config::quantization(config) || model.config_json().contains("quantization_config");
  if (held) return at::kBFloat16;
  return config.get_bool("autocast_adapter_dtype") ? at::kFloat : model.dtype();
}

// "model.embed_tokens" -> "embed_tokens"
std::string last_name(const std::string& module) { return module.substr(module.rfind('.') + 1); }

// Follows TRL: the adapter trains the rows of new tokens, and the whole head. A head that is the embedding
// has those rows already.
void train_tokens(config::LoraConfig& lora, model::Model& model, std::span<const int32_t> tokens,
                  base::LogSink& log) {
  if (tokens.empty()) return;
  std::string embedding, head;
  for (const model::Slot& slot : model.adapters().slots()) {
    if (!slot.takes_rows) continue;
    if (!slot.module.head) embedding = last_name(slot.module.name);
    if (slot.module.head && !slot.module.tied) head = last_name(slot.module.name);
  }
  auto& all = lora.trainable_token_indices;
  auto own =
      std::ranges::find_if(all, [&](const auto& one) { return one.first.empty() || one.first == embedding; });
  if (own == all.end()) own = all.insert(all.end(), {embedding, {}});
  for (const int32_t token : tokens)
    if (std::ranges::find(own->second, token) == own->second.end()) own->second.push_back(token);
  std::vector<std::string>& saved = lora.modules_to_save;
  if (head.empty() || std::ranges::find(saved, head) != saved.end()) return;
  log.warning("adapter", "chat_template_path: there are new tokens, so {} is trained whole (modules_to_save)",
              head);
  saved.push_back(head);
}

// Returns the adapter in use, which SaveKind refers to.
model::Adapter& adapter_in_use(model::Model& model) {
  if (model::Adapter* const adapter = model.adapters().in_use()) return *adapter;
  fail_key("save.kind", "save.kind: adapter and merged need an adapter in use, and this model uses none");
}

void warn_of_head(const model::Model& model, const model::Adapter& adapter, base::LogSink& log) {
  if (!model.config().new_head) return;
  for (const tensor::Parameter* parameter : adapter.parameters())
    if (parameter->name.ends_with("score.weight")) return;
  log.warning("adapter",
              "lora_task_type: {} leaves the new head as it was drawn: give SEQ_CLS, or "
              "lora_modules_to_save: score, to train it",
              adapter.config().task_type);
}

}  // namespace

std::unique_ptr<model::Model> open_model(const engine::ModelSpec& spec, base::LogSink* log,
                                         at::Device device) {
  const model::Head head = spec.reward ? model::Head::reward : model::Head::language;
  if (spec.mapped && device.is_cpu())
    return model::Model::open_mapped(spec.source, spec.dtype, log, head, spec.quantization, spec.seed,
                                     spec.bf16 ? at::kBFloat16 : at::kFloat);
  return model::Model::open(spec.source, spec.dtype, log, device, head, spec.quantization, spec.seed);
}

ModelObject::ModelObject(engine::Host& host, const engine::ModelSpec& spec)
    : host_(host), source_(spec.source), path_(kernels::path_of(spec.plain)) {
  HostLog log(host);
  give_back();
  model_was_opened = model_was_opened || !spec.mapped;
  const at::Device device = tensor::device(spec.use_cpu);
  model_ = open_model(spec, &log, device);
  if (model_->config().new_head && !spec.head_follows)
    log.warning("model",
                "{} has no score.weight: a new head is drawn from seed {}, whose scores mean nothing before "
                "it is trained",
                spec.source.name(), spec.seed);
  if (spec.embedding_rows > 0) {
    const int64_t before = model_->config().vocab_size;
    model_->resize_embeddings(spec.embedding_rows);
    if (before != spec.embedding_rows)
      log.info("model", "the embedding now has {} rows; before it had {}", spec.embedding_rows, before);
  }
  if (spec.wide_head) model_->widen_head();
  if (!device.is_cpu()) log.info("model", "{} is on {}", spec.source.name(), device.str());
  config_json_ = model_->config_json().dump();
  for (const tensor::Parameter* parameter : model_->parameters()) parameter_count_ += parameter->count();
}

ModelObject::ModelObject(engine::Host& host, const ModelObject& of)
    : host_(host),
      source_(of.source_),
      path_(of.path_),
      model_(of.model_->twin()),
      config_json_(of.config_json_),
      parameter_count_(of.parameter_count_) {}

void ModelObject::serve(model::AdapterVersions& versions, const config::BesideArguments& arguments) {
  serving_ = Serving{&versions, arguments};
}

const model::Adapter& ModelObject::newest_version() const {
  return serving_->versions->newest([this](const model::Adapter& version) {
    return over_caches([&](const generate::Cache& cache) { return cache.users(&version); }) > 0;
  });
}

const model::Adapter* ModelObject::adapter_of(const engine::Sampling& sampling) const {
  const model::Adapters& adapters = model_->adapters();
  const std::string& name = sampling.adapter;
  if (serving_ && (name.empty() || name == serving_->versions->name())) return &newest_version();
  const bool alone = name == engine::kNoAdapter;
  const model::Adapter* adapter = adapters.in_use();
  if (serving_ && serving_->versions->version_of(adapters.find(name)) >= 0)
    fail(Status::not_found, "the model has no adapter \"{}\"; {} is the one that is trained", name,
         serving_->versions->name());
  if (!name.empty()) adapter = alone ? nullptr : &adapters.get(name);
  adapters.check_usable(adapter);
  return adapter;
}

int32_t ModelObject::save(std::string_view directory, engine::SaveKind kind,
                          std::span<const engine::NamedBytes> files, engine::ErrorSink& error) noexcept {
  return compute(host_, path_, error, [&] {
    const std::string target(directory);
    if (kind == engine::SaveKind::checkpoint)
      fail_key("save.kind", "save.kind: checkpoint is what a trainer saves; give model, adapter or merged");
    if (kind == engine::SaveKind::adapter)
      return checkpoint::save_adapter(target, adapter_in_use(*model_), files);
    std::shared_ptr<void> merged;  // must live until all is written
    if (kind == engine::SaveKind::merged && model_->adapters().merged() != &adapter_in_use(*model_))
      merged = model_->adapters().merged_to_save(adapter_in_use(*model_));
    std::string card;
    checkpoint::save_model(target, *model_,
                           checkpoint::with_card(target, *model_, source_.name(), files, {}, false, card));
  });
}

int32_t ModelObject::add_adapter(std::string_view name, std::string_view directory,
                                 engine::ErrorSink& error) noexcept {
  return compute(host_, path_, error, [&] {
    HostLog log(host_);
    if (serving_ && name == serving_->versions->name())
      fail(Status::invalid_argument, "the model already has an adapter \"{}\", which is trained", name);
    model_->adapters().open(std::string(name), std::string(directory), &log);
  });
}

template <class Count>
int64_t ModelObject::over_caches(const Count& count) const {
  int64_t sum = 0;
  for (const auto& known : caches_) {
    const std::shared_ptr<generate::Cache> cache = known.lock();
    if (cache == nullptr) continue;
    const std::lock_guard lock(cache->in_use);
    sum += count(*cache);
  }
  return sum;
}

int32_t ModelObject::remove_adapter(std::string_view name, engine::ErrorSink& error) noexcept {
  return compute(host_, error, [&] {
    const model::Adapter* const adapter = &model_->adapters().get(name);
    const int64_t users =
        over_caches([adapter](const generate::Cache& cache) { return cache.users(adapter); });
    if (users > 0) {
      fail(Status::busy, "adapter \"{}\" is used by {} completions of a generator: finish or cancel them",
           name, users);
    }
    model_->adapters().remove(name);
  });
}

int32_t ModelObject::use_adapter(std::string_view name, engine::ErrorSink& error) noexcept {
  return compute(host_, error, [&] {
    model::Adapters& adapters = model_->adapters();
    adapters.use(name.empty() ? nullptr : &adapters.get(name));
  });
}

int32_t ModelObject::merge_adapter(std::string_view name, engine::ErrorSink& error) noexcept {
  return compute(host_, path_, error, [&] {
    model::Adapters& adapters = model_->adapters();
    if (name.empty()) return adapters.unmerge();
    model::Adapter& adapter = adapters.get(name);
    const int64_t others =
        over_caches([&adapter](const generate::Cache& cache) { return cache.users_besides(&adapter); });
    if (others > 0) {
      fail(Status::busy,
           "adapter \"{}\" cannot be merged: a generator has {} completions with another one or the model "
           "alone: finish or cancel them",
           name, others);
    }
    tensor::trim();  // so that the difference is what stays
    const int64_t before = host_.memory_now();
    const auto begin = std::chrono::steady_clock::now();
    adapters.merge(adapter);
    tensor::trim();
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    HostLog(host_).info("adapter",
                        "adapter \"{}\" was merged in {:.2f} s; until it is taken out, {} more are used",
                        name, seconds, base::bytes_text(host_.memory_now() - before));
  });
}

// The cache that generators of this kind share; made anew if there is none.
std::shared_ptr<generate::Cache> ModelObject::cache_for(const generate::CacheKind& kind, int64_t bytes) {
  std::erase_if(caches_, [](const auto& cache) { return cache.expired(); });
  for (const auto& known : caches_) {
    const std::shared_ptr<generate::Cache> cache = known.lock();
    if (cache == nullptr || cache->kind != kind) continue;  // its last generator may have gone meanwhile
    const std::lock_guard lock(cache->in_use);
    cache->raise_limit(bytes);
    return cache;
  }
  auto cache = std::make_shared<generate::Cache>(*model_, kind, bytes);
  if (cache->narrow() != nullptr)
    HostLog(host_).info("generate", "generation_dtype: {}", cache->narrow()->summary());
  caches_.push_back(cache);
  return cache;
}

int32_t ModelObject::check_sampling(const engine::Sampling& sampling, engine::ErrorSink& error) noexcept {
  return compute(host_, error, [&] {
    generate::check_sampling(sampling, model_->config().vocab_size);
    adapter_of(sampling);
  });
}

int32_t ModelObject::create_generator(const engine::GeneratorSpec& spec, engine::Generator** out,
                                      engine::ErrorSink& error) noexcept {
  return compute(host_, error, [&] {
    if (model_->config().labels > 0)
      fail(Status::unsupported, "{}: a reward model scores text and cannot generate it", source_.name());
    *out = new GeneratorObject(host_, *this, spec, cache_for(cache_kind(*model_, spec), spec.cache_bytes));
  });
}

std::unique_ptr<train::CompletionWriter> ModelObject::completion_writer(const engine::RolloutSpec& spec) {
  const engine::GeneratorSpec& how = spec.generator;
  auto generator = std::make_unique<generate::Generator>(
      *model_, how, cache_for(cache_kind(*model_, how), how.cache_bytes));
  return std::make_unique<train::CompletionWriter>(std::move(generator), model_->adapters().trained(),
                                                   how.sleeps);
}

int32_t ModelObject::score(const engine::ScoreSpec& spec, float* scores, engine::ErrorSink& error) noexcept {
  return compute(host_, path_, error, [&] {
    if (model_->config().labels != 1)
      fail(Status::unsupported,
           "{}: a language model gives no scores; give a reward model: a classifier with one label, or an "
           "adapter that makes one of its model",
           source_.name());
    const at::ScalarType type = model_->compute(spec.bf16 ? at::kBFloat16 : at::kFloat);
    const std::vector<float> all =
        train::scores(*model_, spec.texts, type, spec.batch, spec.at_end ? -1 : train::padding_of(*model_));
    std::ranges::copy(all, scores);
  });
}

int32_t ModelObject::list_tensors(engine::TensorList& list, engine::ErrorSink& error) noexcept {
  return compute(host_, error, [&] { entry::list_tensors(*model_, list); });
}

int32_t ModelObject::read_tensor(std::string_view name, engine::TensorRead what, engine::HeldTensor* out,
                                 engine::ErrorSink& error) noexcept {
  return compute(host_, error, [&] { *out = entry::read_tensor(*model_, name, what); });
}

int32_t ModelObject::write_tensor(std::string_view name, const engine::GivenTensor& values,
                                  engine::ErrorSink& error) noexcept {
  return compute(host_, error, [&] { entry::write_tensor(*model_, name, values); });
}

int32_t ModelObject::exchange_tensor(std::string_view name, engine::HeldTensor& other,
                                     engine::ErrorSink& error) noexcept {
  return compute(host_, error, [&] { entry::exchange_tensor(*model_, name, other); });
}

int64_t start_to_come() {
  const int64_t bytes = give_back();
  return model_was_opened ? 0 : bytes;
}

model::Head head_of(const config::Config& config) {
  return config.method().scores() ? model::Head::reward : model::Head::language;
}

void retype_adapter(model::Model& model, const config::Config& config) {
  model::Adapters& adapters = model.adapters();
  const at::ScalarType type = factor_type(model, config);
  if (type == at::kFloat || adapters.find("default") == nullptr) return;
  adapters.remove("default");
  adapters.use(&adapters.open("default", config.get("adapter_name_or_path"), nullptr, type));
}

// use_peft: an adapter is trained and the model is frozen.
void add_adapter(model::Model& model, const std::string& path, const config::Config& config,
                 std::span<const int32_t> new_tokens, base::LogSink& log) {
  std::optional<config::LoraConfig> lora = config::lora_config(config);
  if (!lora) return;
  if (model.adapters().find("default") == nullptr) {
    lora->base_model_name_or_path = adapter::model_name(path);
    train_tokens(*lora, model, new_tokens, log);
    model.adapters().add("default", *lora, factor_type(model, config), &log).start(model.generator());
  } else {
    retype_adapter(model, config);
  }
  model.train_only(model.adapters().get("default"));
  warn_of_head(model, model.adapters().get("default"), log);
  int64_t trained = 0, all = 0;
  for (const tensor::Parameter* parameter : model.all_parameters()) {
    all += parameter->count();
    if (parameter->trainable) trained += parameter->count();
  }
  log.info("adapter", "{} of {} parameters are trained ({:.2f} %)", trained, all,
           100 * static_cast<double>(trained) / static_cast<double>(all));
}

// Refused as in transformers' Trainer.
void refuse_quantised(model::Model& model, const config::Config& config) {
  if (config.get_bool("use_peft")) return;
  for (const tensor::Parameter* parameter : model.parameters()) {
    if (parameter->encoded() == nullptr) continue;
    fail_key("use_peft",
             "use_peft: false asks for all weights to be trained, and {} is held as {}, which cannot be "
             "trained: train adapters on top of it (use_peft: true), or open the model without quantisation",
             parameter->name, parameter->encoded()->form());
  }
}

}  // namespace trl::entry
