// precompute_ref_log_probs: the reference's log-probabilities of all rows, computed once or read from a file.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <span>
#include <string>
#include <unordered_set>
#include <vector>

#include "base/error.h"
#include "base/files/hash.h"
#include "base/interrupt.h"
#include "engine/error_capture.h"
#include "kernels/path.h"
#include "tensor/memory/rehearsal.h"
#include "train/batches/batches.h"
#include "train/batches/micro_batch.h"
#include "train/scoring/reference_file.h"
#include "train/scoring/scorer.h"
#include "train/scoring/weights_digest.h"

namespace trl::train {

namespace {

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

}  // namespace trl::train
