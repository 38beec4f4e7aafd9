#include "train/scoring/teacher.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "kernels/head/divergence.h"
#include "tensor/memory/rehearsal.h"

namespace trl::train {

namespace {

constexpr const char* kTeacher = "teacher_model_name_or_path";

std::unique_ptr<Scorer> open_teacher(const MethodContext& context, const Causal& causal,
                                     const model::Model*& opened) {
  const config::OnlineArguments& arguments = context.arguments.online;
  std::unique_ptr<model::Model> model;
  try {
    model = open_unchanging(context, arguments.teacher, arguments.teacher_dtype);
  } catch (const Error& error) {
    if (error.status() == Status::cancelled) throw;
    throw error.with(fmt::format("{}: {}", kTeacher, error.message()), kTeacher);
  }
  const int64_t own = model->config().vocab_size, policy = context.model.config().vocab_size;
  if (own != policy) {
    fail_key(kTeacher,
             "{}: {} has a vocabulary of {} tokens, and the model that is trained one of {}: their "
             "distributions are compared token by token, so give a teacher with the same vocabulary",
             kTeacher, arguments.teacher, own, policy);
  }
  opened = model.get();
  return scorer_by(causal, std::move(model), fmt::format("the teacher {}", arguments.teacher));
}

// The rows of a part that have a target, each once, and how many targets it has.
struct TargetRows {
  std::vector<int64_t> rows;
  std::vector<double> counts;
};
TargetRows rows_of(const MicroBatch& part) {
  TargetRows out;
  for (const int32_t row : part.targets.tokens.rows) {
    if (!out.rows.empty() && out.rows.back() == row) {
      ++out.counts.back();
      continue;
    }
    out.rows.push_back(row);
    out.counts.push_back(1);
  }
  return out;
}

// The teacher's hidden states at the targets of a part.
struct Lesson {
  at::Tensor hidden;
  model::UsedHead head;
  kernels::HeadOptions options;
};
Lesson lesson_of(Scorer& teacher, const MicroBatch& part, at::ScalarType compute) {
  auto [output, options] = teacher.hidden(part);
  options.compute = compute;
  options.as_generated = false;
  const std::vector<int64_t> rows = rows_of(part).rows;
  const at::Tensor ids = at::tensor(at::IntArrayRef(rows), at::kLong).to(output.hidden.device());
  return {output.hidden.index_select(0, ids), output.head, options};
}

class DivergenceLoss final : public SummedLoss {
 public:
  DivergenceLoss(const Causal& causal, std::vector<Lesson> lessons, const kernels::Divergence& divergence,
                 bool tells_entropy)
      : causal_(causal),
        lessons_(std::move(lessons)),
        divergence_(divergence),
        tells_entropy_(tells_entropy) {}

  MethodMetrics metrics() const override {
    if (!tells_entropy_) return {};
    return {{"entropy", count_ == 0 ? 0 : values_.entropy / count_}};
  }

 private:
  Share share(const model::Output& output, const MicroBatch& part) override {
    const tensor::Stage stage("loss");
    const Lesson lesson = std::exchange(lessons_.at(next_), {});
    ++next_;
    const TargetRows targets = rows_of(part);
    std::vector<int64_t> taught(targets.rows.size());
    std::iota(taught.begin(), taught.end(), 0);
    kernels::HeadOptions options = causal_.options(output.head);
    options.as_generated = false;
    const at::Tensor loss = kernels::head_divergence(
        {output.hidden, targets.rows, *output.head.weight, options},
        {lesson.hidden, taught, *lesson.head.weight, lesson.options}, targets.counts, divergence_, &values_);
    count_ += std::accumulate(targets.counts.begin(), targets.counts.end(), 0.0);
    return {loss.item<float>(), loss};
  }

  const Causal& causal_;
  std::vector<Lesson> lessons_;  // by part
  const kernels::Divergence divergence_;
  const bool tells_entropy_;
  size_t next_ = 0;  // part
  kernels::DivergenceValues values_;
  double count_ = 0;  // targets
};

}  // namespace

Taught::Taught(const MethodContext& context, bool tells_entropy)
    : causal_(context.arguments, context.model, context.attention),
      writes_(context.arguments.online.seq_kd),
      teacher_(open_teacher(context, causal_, model_)),
      beta_(context.arguments.online.beta),
      tells_entropy_(tells_entropy) {}

// The teacher goes first: its activations are gone when those of the model are kept for backward.
std::unique_ptr<BatchLoss> Taught::loss(const MicroBatch&, std::span<const MicroBatch> parts,
                                        const Divisors& divisors) {
  const tensor::Stage stage("teacher");
  std::vector<Lesson> lessons;
  for (const MicroBatch& part : parts) lessons.push_back(lesson_of(*teacher_, part, causal_.compute()));
  const kernels::Divergence divergence{beta_, 1 / std::max(divisors.items, 1.0)};
  return std::make_unique<DivergenceLoss>(causal_, std::move(lessons), divergence, tells_entropy_);
}

}  // namespace trl::train
