#include "train/scoring/scorer.h"

#include <ATen/core/grad_mode.h>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <unordered_set>

#include "base/error.h"
#include "base/files/hash.h"
#include "base/interrupt.h"
#include "checkpoint/save.h"
#include "engine/error_capture.h"
#include "kernels/path.h"
#include "tensor/memory/rehearsal.h"
#include "tensor/threads/parallel.h"
#include "train/batches.h"
#include "train/micro_batch.h"
#include "train/scoring/reference_file.h"
#include "train/scoring/weights_digest.h"

namespace trl::train {

namespace {

// The policy's own weights, with another adapter or none.
class OtherAdapter final : public Scorer {
 public:
  OtherAdapter(const Causal& causal, model::Adapter* adapter) : causal_(causal), adapter_(adapter) {}
  Hidden hidden(const MicroBatch& part) override {
    const model::Output output = causal_.forward_by(adapter_, part);
    return {output, causal_.options(output.head)};
  }
  std::string faulty_weight() override { return train::faulty_weight(causal_.model()); }

 private:
  const Causal& causal_;
  model::Adapter* const adapter_;
};

class OtherModel final : public Scorer {
 public:
  OtherModel(const Causal& causal, std::unique_ptr<model::Model> model, std::string name)
      : causal_(causal), model_(std::move(model)), name_(std::move(name)) {}
  Hidden hidden(const MicroBatch& part) override {
    const model::Output output = causal_.forward_by(*model_, part);
    return {output, causal_.options(output.head, *model_)};
  }
  std::string faulty_weight() override {
    const std::string weight = train::faulty_weight(*model_);
    return weight.empty() ? "" : fmt::format("{}: {}", name_, weight);
  }
  void mix(double share) override {
    if (tensor::Rehearsal::current() != nullptr) return;  // no memory: a rehearsal writes none
    const at::NoGradGuard no_graph;
    const std::vector<tensor::Parameter*> own = model_->parameters(), policy = causal_.model().parameters();
    const auto add_share = [share](const at::Tensor& to, const at::Tensor& from) {
      to.mul_(1 - share).add_(from, share);
    };
    for (size_t i = 0; i < own.size(); ++i) {
      const tensor::Reading from = policy[i]->read();
      const tensor::Writing to = own[i]->write();
      tensor::in_parts(add_share, *to, *from);
    }
  }
  std::vector<optim::StateTensor> weights() override {
    std::vector<optim::StateTensor> out;
    for (tensor::Parameter* parameter : model_->parameters())
      out.push_back({"reference." + parameter->name, *parameter->write()});
    return out;
  }

 private:
  const Causal& causal_;
  const std::unique_ptr<model::Model> model_;
  const std::string name_;
};

// sync_ref_model mixes each weight with the policy's of the same name.
void check_alike(model::Model& reference, model::Model& policy, const std::string& path) {
  const std::vector<tensor::Parameter*> own = reference.parameters(), others = policy.parameters();
  const auto alike = [](const tensor::Parameter* a, const tensor::Parameter* b) {
    return a->name == b->name && a->shape() == b->shape();
  };
  if (std::ranges::equal(own, others, alike)) return;
  fail_key("ref_model_name_or_path",
           "ref_model_name_or_path: {} has other layers or other shapes than the model that is trained, and "
           "sync_ref_model: true mixes their weights: give a reference of the same architecture, or leave "
           "out sync_ref_model",
           path);
}

// Opens a model in the policy's dtype and on its device.
std::unique_ptr<model::Model> open_like_policy(const MethodContext& context, const io::ModelSource& from) {
  const char* const type = context.model.dtype() == at::kBFloat16 ? "bfloat16" : "float32";
  if (!context.arguments.preference.sync_ref_model) return open_unchanging(context, from, type);
  auto model = model::Model::open(from, type, context.log, context.model.device());
  if (context.model.head().dtype() == at::kFloat) model->widen_head();
  return model;
}

// Opens the model of ref_model_name_or_path. Its embedding may be padded further than the policy's.
std::unique_ptr<model::Model> open_reference(const MethodContext& context, const std::string& path) {
  std::unique_ptr<model::Model> model;
  try {
    model = open_like_policy(context, path);
  } catch (const Error& error) {
    if (error.status() == Status::cancelled) throw;
    throw error.with(fmt::format("ref_model_name_or_path: {}", error.message()), "ref_model_name_or_path");
  }
  const int64_t own = model->config().vocab_size, policy = context.model.config().vocab_size;
  if (own < policy) {
    fail_key("ref_model_name_or_path",
             "ref_model_name_or_path: {} has a vocabulary of {} tokens, and the model that is trained one of "
             "{}: give a reference with the same vocabulary",
             path, own, policy);
  }
  if (context.arguments.preference.sync_ref_model) check_alike(*model, context.model, path);
  return model;
}

std::unique_ptr<Scorer> reference_by(const Causal& causal, std::unique_ptr<model::Model> model,
                                     const std::string& path) {
  return scorer_by(causal, std::move(model), "the reference model " + path);
}

// Rows of one pass, in the parts that go through a model.
class RowPass {
 public:
  RowPass(const MethodContext& context, engine::BatchSource& source, int64_t batch_size)
      : source_(source),
        vocab_size_(context.model.config().vocab_size),
        most_tokens_(context.arguments.max_tokens_per_pass),
        batch_size_(batch_size),
        share_(sharing_of(context.arguments, context.model, context.attention, nullptr)) {}

  // Calls body for each until it returns false.
  template <typename Body>
  void each(const Body& body) const {
    engine::ErrorCapture error;
    error.check(source_.start_pass(batch_size_, error));
    for (const data::Batch* batch = nullptr; error.check(source_.next(&batch, error));) {
      base::poll();
      for (const MicroBatch& part : parts_of(copied(*batch, vocab_size_, share_), most_tokens_))
        if (!body(part)) return;
    }
  }

 private:
  engine::BatchSource& source_;
  const int64_t vocab_size_;
  const std::optional<int64_t> most_tokens_;
  const int64_t batch_size_;
  const std::optional<data::TreeLimits> share_;  // as in training, so that both round alike
};

std::vector<uint64_t> sequences_of(const MicroBatch& part) {
  return digests_of(part.targets, *part.segments, part.input_ids.data_ptr<int32_t>(), part.sequence_count());
}

// Identifies all sequences of the rows, in their order.
std::string content_of(const RowPass& rows) {
  base::Xxh3 hash;
  int64_t count = 0;
  rows.each([&](const MicroBatch& part) {
    const std::vector<uint64_t> digests = sequences_of(part);
    hash.update({reinterpret_cast<const char*>(digests.data()), digests.size() * sizeof(uint64_t)});
    count += std::ssize(digests);
    return true;
  });
  return fmt::format("{} {:016x}", count, hash.digest());
}

// Refuses to record what a weight that is not finite gives.
void check_finite(const std::vector<float>& log_probs, Scorer& reference) {
  if (std::ranges::all_of(log_probs, [](float value) { return std::isfinite(value); })) return;
  if (const std::string weight = reference.faulty_weight(); !weight.empty())
    fail(Status::invalid_argument, "precompute_ref_log_probs: {}{}", weight, kGiveFinite);
}

void record_rows(const RowPass& rows, Scorer& reference, const AddReference& add) {
  std::vector<std::vector<float>> values;
  std::unordered_set<uint64_t> seen;
  rows.each([&](const MicroBatch& part) {
    const std::vector<uint64_t> digests = sequences_of(part);
    const std::vector<float> log_probs = reference.log_probs(part);
    check_finite(log_probs, reference);
    values.assign(digests.size(), {});
    for (size_t i = 0; i < log_probs.size(); ++i)
      values[static_cast<size_t>(part.targets.sequences[i])].push_back(log_probs[i]);
    for (size_t s = 0; s < digests.size(); ++s)
      if (!values[s].empty() && seen.insert(digests[s]).second) add(digests[s], values[s]);
    return true;
  });
}

class RecordedReference final : public Scorer {
 public:
  void open(const std::string& path) { files_.push_back(std::make_unique<ReferenceFile>(path)); }

  Hidden hidden(const MicroBatch&) override {
    fail(Status::internal, "recorded log-probabilities have no hidden states");
  }
  std::vector<float> log_probs(const MicroBatch& part) override {
    std::vector<float> out(static_cast<size_t>(part.targets.size()));
    if (tensor::Rehearsal::current() != nullptr) return out;
    const std::vector<uint64_t> digests = sequences_of(part);
    std::vector<std::span<const float>> values;
    for (const uint64_t digest : digests) values.push_back(find(digest));
    std::vector<size_t> next(values.size());
    for (size_t i = 0; i < out.size(); ++i) {
      const auto sequence = static_cast<size_t>(part.targets.sequences[i]);
      if (next[sequence] >= values[sequence].size())
        fail(Status::invalid_argument,
             "precompute_ref_log_probs: these are not the rows that the reference was computed for before "
             "the first step");
      out[i] = values[sequence][next[sequence]++];
    }
    return out;
  }

 private:
  std::span<const float> find(uint64_t digest) const {
    for (const auto& file : files_)
      if (const auto found = file->find(digest)) return *found;
    return {};
  }

  std::vector<std::unique_ptr<ReferenceFile>> files_;
};

class Recording {
 public:
  Recording(const MethodContext& context, const Causal& causal)
      : context_(context),
        arguments_(context.arguments.preference),
        first_(first_reference(context, causal)),
        recorded_(std::make_unique<RecordedReference>()) {}

  void rows(engine::BatchSource& source, std::string_view split, int64_t batch_size) {
    const RowPass pass(context_, source, arguments_.precompute_ref_batch_size.value_or(batch_size));
    if (tensor::Rehearsal::current() != nullptr) {
      pass.each([&](const MicroBatch& part) {
        first_.reference->log_probs(part);
        return false;
      });
      return;
    }
    const std::string key = base::sha256_hex(first_.identity + content_of(pass)).substr(0, 32);
    const std::string path =
        base::join_path(arguments_.ref_logprobs_cache_dir, fmt::format("ref-logprobs-{}.bin", key));
    if (read(path, split)) return;
    const auto start = std::chrono::steady_clock::now();
    base::make_directories(arguments_.ref_logprobs_cache_dir);
    write_reference_file(path, [&](const AddReference& add) { record_rows(pass, *first_.reference, add); });
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    tell(
        "precompute_ref_log_probs: the reference's log-probabilities of the {} rows were computed in {:.1f} "
        "s; {}",
        split, seconds.count(), path);
    recorded_->open(path);
  }

  std::unique_ptr<Scorer> take() { return std::move(recorded_); }

 private:
  // Returns false if the file is missing, or damaged, for which it warns.
  bool read(const std::string& path, std::string_view split) {
    if (!base::file_exists(path)) return false;
    try {
      recorded_->open(path);
    } catch (const Error& error) {
      if (error.status() != Status::format) throw;
      if (context_.log != nullptr)
        context_.log->warning("cache", "ref_logprobs_cache_dir: {}; it is computed anew", error.message());
      return false;
    }
    tell("precompute_ref_log_probs: the reference's log-probabilities of the {} rows are read from {}", split,
         path);
    return true;
  }

  template <typename... Args>
  void tell(fmt::format_string<Args...> text, Args&&... args) const {
    if (context_.log != nullptr) context_.log->info("cache", text, std::forward<Args>(args)...);
  }

  const MethodContext& context_;
  const config::PreferenceArguments& arguments_;
  const FirstReference first_;
  std::unique_ptr<RecordedReference> recorded_;
};

}  // namespace

std::vector<float> Scorer::log_probs(const MicroBatch& part) {
  const auto [output, options] = hidden(part);
  const at::NoGradGuard no_graph;
  std::vector<float> out;
  for (const kernels::TokenValues& v :
       kernels::head_values(output.hidden, *output.head.weight, part.targets.tokens, options))
    out.push_back(static_cast<float>(v.log_prob));
  return out;
}

std::unique_ptr<model::Model> open_unchanging(const MethodContext& context, const io::ModelSource& from,
                                              std::string_view dtype) {
  if (context.model.device().is_cpu()) return model::Model::open_mapped(from, dtype, context.log);
  return model::Model::open(from, dtype, context.log, context.model.device());
}

std::unique_ptr<Scorer> scorer_by(const Causal& causal, std::unique_ptr<model::Model> model,
                                  std::string name) {
  return std::make_unique<OtherModel>(causal, std::move(model), std::move(name));
}

void Scorer::mix(double) {
  fail_key("sync_ref_model",
           "sync_ref_model: true needs a reference model of its own; an adapter's is the model without it");
}

std::unique_ptr<Scorer> make_reference(const MethodContext& context, const Causal& causal) {
  const config::PreferenceArguments& arguments = context.arguments.preference;
  if (arguments.precompute_ref_log_probs) return record_reference(context, causal);
  if (!arguments.reference.empty())
    return reference_by(causal, open_reference(context, arguments.reference), arguments.reference);
  model::Adapters& adapters = context.model.adapters();
  if (context.only_evaluates) {
    if (adapters.in_use() == nullptr && context.log != nullptr)
      context.log->warning("train",
                           "the reference is the model itself, so all rewards are 0: give "
                           "ref_model_name_or_path, or an adapter as the model");
    return std::make_unique<OtherAdapter>(causal, nullptr);
  }
  const model::Adapter* const trained = adapters.trained();
  if (trained == nullptr)
    return reference_by(causal, open_like_policy(context, context.source), context.source.name());
  if (!arguments.continues_adapter) return std::make_unique<OtherAdapter>(causal, nullptr);
  return std::make_unique<OtherAdapter>(causal, &adapters.copy("ref", *trained));
}

FirstReference first_reference(const MethodContext& context, const Causal& causal) {
  const config::TrainingArguments& arguments = context.arguments;
  std::string identity = fmt::format("{} {}{}\n", c10::toString(causal.compute()),
                                     arguments.frozen_compute == config::FrozenCompute::int8 ? "int8" : "",
                                     arguments.generation_exact ? "rows" : "");
  const auto add = [&](model::Model& model) {
    identity +=
        fmt::format("{} {}\n", weights_digest(model.parameters()), config_digest(model.config_json()));
  };
  if (!arguments.preference.reference.empty()) {
    auto other = open_reference(context, arguments.preference.reference);
    add(*other);
    return {reference_by(causal, std::move(other), arguments.preference.reference), identity};
  }
  add(context.model);
  model::Adapter* const trained = context.model.adapters().trained();
  if (trained == nullptr || !arguments.preference.continues_adapter)
    return {std::make_unique<OtherAdapter>(causal, nullptr), identity};
  base::Json about = base::parse_json(checkpoint::config_text(*trained), "adapter_config.json");
  about.erase("base_model_name_or_path");
  identity += about.dump() + weights_digest(trained->parameters());
  if (!trained->kept_tables().empty()) identity += weights_digest(trained->kept_tables());
  return {std::make_unique<OtherAdapter>(causal, trained), identity};
}

std::unique_ptr<Scorer> make_policy(const Causal& causal) {
  return std::make_unique<OtherAdapter>(causal, causal.model().adapters().trained());
}

std::unique_ptr<Scorer> record_reference(const MethodContext& context, const Causal& causal) {
  const config::TrainingArguments& arguments = context.arguments;
  const tensor::Stage stage("reference");
  const kernels::PathScope scope(kernels::path_of(arguments.plain()));
  Recording recording(context, causal);
  recording.rows(*context.train, "training", arguments.per_device_train_batch_size);
  if (context.eval != nullptr)
    recording.rows(*context.eval, "evaluation", arguments.per_device_eval_batch_size);
  return recording.take();
}

Referenced::Referenced(const MethodContext& context)
    : causal_(context.arguments, context.model, context.attention),
      arguments_(context.arguments.preference),
      reference_(make_reference(context, causal_)) {}

std::vector<float> Referenced::reference(std::span<const MicroBatch> parts) {
  const tensor::Stage stage("reference");
  std::vector<float> all;
  for (const MicroBatch& part : parts) {
    const std::vector<float> own = reference_->log_probs(part);
    all.insert(all.end(), own.begin(), own.end());
  }
  return all;
}

void Referenced::updated(int64_t step) {
  if (arguments_.sync_ref_model && step % arguments_.ref_model_sync_steps == 0)
    reference_->mix(arguments_.ref_model_mixup_alpha);
}

std::vector<optim::StateTensor> Referenced::state(int64_t step) {
  const bool mixed = arguments_.sync_ref_model && step >= arguments_.ref_model_sync_steps;
  return mixed ? reference_->weights() : std::vector<optim::StateTensor>();
}

}  // namespace trl::train
