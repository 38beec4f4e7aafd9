// One sweep over the compared rows, a tile at a time: the logits of both models, the sums of their
// divergence, and from these the gradients of the student's logits, in their place.
#include <algorithm>
#include <cmath>

#include "kernels/backend.h"
#include "kernels/head/divergence.h"
#include "kernels/head/head_node.h"
#include "kernels/head/tiled_head.h"

namespace trl::kernels {

namespace {

constexpr int64_t kParts = 64;  // of the vocabulary, whose sums are joined in order

// Sums of a row over the vocabulary: of p (log p - log m) and q (log q - log m); m as DivergenceTile says.
struct RowSums {
  double student = 0, teacher = 0;
};

// A sum that is not part of the divergence may be infinite.
double weighed(double share, double sum) { return share == 0 ? 0 : share * sum; }

class DivergenceSweep {
 public:
  DivergenceSweep(const HeadInput& student, const HeadInput& teacher, const std::vector<double>& counts,
                  const Divergence& divergence, const HeadGradients& gradients)
      : student_(student.hidden, student.head, student.options, gradients),
        teacher_(teacher.hidden, teacher.head, teacher.options, none_),
        student_rows_(student.rows),
        teacher_rows_(teacher.rows),
        counts_(counts),
        divergence_(divergence),
        wanted_rows_(student.options.tile_rows),
        learns_(gradients.any()) {}

  double run(DivergenceValues* values) {
    const tensor::Timed timed(tensor::Part::head);
    const auto count = std::ssize(counts_);
    if (count == 0) return 0;
    const int64_t most = rows_of_tile(count, student_.row_bytes() + teacher_.row_bytes(), wanted_rows_);
    student_.begin(student_rows_, most);
    teacher_.begin(teacher_rows_, most);
    for (int64_t first = 0; first < count; first += most)
      run_tile(static_cast<size_t>(first), std::min(most, count - first), values);
    student_.finish();
    return sum_ * divergence_.scale;
  }

 private:
  bool mixed() const { return divergence_.beta > 0 && divergence_.beta < 1; }
  // The factors of the two sums of a row.
  double student_share() const { return mixed() ? 1 - divergence_.beta : divergence_.beta; }
  double teacher_share() const { return mixed() ? divergence_.beta : 1 - divergence_.beta; }

  void run_tile(size_t first, int64_t rows, DivergenceValues* values) {
    student_.compute(first, rows);
    teacher_.compute(first, rows);
    const auto pitch = static_cast<size_t>(student_.tile().pitch);
    std::vector<float> student_top(pitch), student_log(pitch), teacher_top(pitch), teacher_log(pitch);
    for (size_t i = 0; i < static_cast<size_t>(rows); ++i) {
      const HeadStats &own = student_.stats(i), &other = teacher_.stats(i);
      student_top[i] = own.top;
      student_log[i] = static_cast<float>(std::log(own.sum));
      teacher_top[i] = other.top;
      teacher_log[i] = static_cast<float>(std::log(other.sum));
      if (values != nullptr)
        values->entropy += counts_[first + i] * (std::log(own.sum) - own.weighted / own.sum);
    }
    DivergenceTile tile{};
    tile.pitch = student_.tile().pitch;
    tile.type = student_.tile().type;
    tile.student = student_.tile().logits;
    tile.teacher = teacher_.tile().logits;
    tile.student_top = student_top.data();
    tile.student_log = student_log.data();
    tile.teacher_top = teacher_top.data();
    tile.teacher_log = teacher_log.data();
    tile.mixed = mixed();
    tile.reverse = divergence_.beta == 1;
    tile.log_student_share = static_cast<float>(std::log1p(-divergence_.beta));
    tile.log_teacher_share = static_cast<float>(std::log(divergence_.beta));
    tile.softcap = student_.tile().softcap;
    take(first, rows, tile);
  }

  // Adds the tile's divergences, and their gradients.
  void take(size_t first, int64_t rows, const DivergenceTile& tile) {
    const std::vector<RowSums> sums = sums_of(tile, rows);
    const double factor = student_.logit_factor() * divergence_.scale;
    std::vector<float> scale(static_cast<size_t>(tile.pitch)), mean(scale);
    for (size_t i = 0; i < sums.size(); ++i) {
      const double count = counts_[first + i];
      sum_ += count * weighed(student_share(), sums[i].student);
      sum_ += count * weighed(teacher_share(), sums[i].teacher);
      scale[i] = static_cast<float>(count * factor * (mixed() ? student_share() : 1));
      mean[i] = static_cast<float>(sums[i].student);
    }
    if (!learns_) return;
    student_.each_part(kParts, [&](int64_t, int64_t begin, int64_t end) {
      cpu().divergence_gradient(tile, begin, end, scale.data(), mean.data());
    });
    student_.add_gradients({});
  }

  std::vector<RowSums> sums_of(const DivergenceTile& tile, int64_t rows) const {
    const auto pitch = static_cast<size_t>(tile.pitch);
    std::vector<float> parts(2 * kParts * pitch);
    student_.each_part(kParts, [&](int64_t part, int64_t begin, int64_t end) {
      float* const own = parts.data() + 2 * static_cast<size_t>(part) * pitch;
      cpu().divergence_sums(tile, begin, end, own, own + pitch);
    });
    std::vector<RowSums> sums(static_cast<size_t>(rows));
    for (size_t part = 0; part < kParts; ++part) {
      for (size_t i = 0; i < sums.size(); ++i) {
        sums[i].student += static_cast<double>(parts[2 * part * pitch + i]);
        sums[i].teacher += static_cast<double>(parts[(2 * part + 1) * pitch + i]);
      }
    }
    return sums;
  }

  const HeadGradients none_ = {};
  TiledHead student_, teacher_;
  const std::vector<int64_t>&student_rows_, &teacher_rows_;
  const std::vector<double>& counts_;
  const Divergence divergence_;
  const int64_t wanted_rows_;
  const bool learns_;
  double sum_ = 0;
};

// A divergence with copies of all that it reads but the heads.
struct DivergenceLoss {
  Parameter *student_head, *teacher_head;
  HeadOptions student_options, teacher_options;
  OwnRows own;  // those of the student's options
  at::Tensor teacher_hidden;
  std::vector<int64_t> student_rows, teacher_rows;
  std::vector<double> counts;
  Divergence divergence;
  DivergenceValues* values;  // for the first sweep

  at::Tensor operator()(const HeadCall& call) const {
    Divergence scaled = divergence;
    scaled.scale *= call.factor;
    HeadOptions with_own = student_options;
    if (own_rows(student_options) != nullptr) with_own.own_rows = &own;
    return backend(call.hidden)
        .divergence_sweep({call.hidden, student_rows, *student_head, with_own},
                          {teacher_hidden, teacher_rows, *teacher_head, teacher_options}, counts, scaled,
                          call.gradients, call.first ? values : nullptr);
  }
};

void check(const HeadInput& x, size_t count) {
  need(x.hidden.dim() == 2 && x.hidden.is_contiguous() && x.hidden.size(1) == x.head.size(1), "divergence",
       "hidden [tokens, width] is needed");
  need(x.rows.size() == count && std::ranges::is_sorted(x.rows) &&
           (x.rows.empty() || (x.rows.front() >= 0 && x.rows.back() < x.hidden.size(0))),
       "divergence", "rows that ascend, within hidden, and a count for each are needed");
}

}  // namespace

namespace fused_ops {

at::Tensor divergence_sweep(const HeadInput& student, const HeadInput& teacher,
                            const std::vector<double>& counts, const Divergence& divergence,
                            const HeadGradients& gradients, DivergenceValues* values) {
  return scalar(DivergenceSweep(student, teacher, counts, divergence, gradients).run(values));
}

}  // namespace fused_ops

at::Tensor head_divergence(const HeadInput& student, const HeadInput& teacher,
                           const std::vector<double>& counts, const Divergence& divergence,
                           DivergenceValues* values) {
  check(student, counts.size());
  check(teacher, counts.size());
  need(student.head.size(0) == teacher.head.size(0) && student.options.compute == teacher.options.compute,
       "divergence", "one vocabulary and one compute type are needed");
  if (!records(student.hidden))
    return backend(student.hidden).divergence_sweep(student, teacher, counts, divergence, {}, values);
  const OwnRows* const own = own_rows(student.options);
  return head_node(student.hidden, student.head, student.options,
                   DivergenceLoss{&student.head, &teacher.head, student.options, teacher.options,
                                  own != nullptr ? *own : OwnRows(), teacher.hidden.detach(), student.rows,
                                  teacher.rows, counts, divergence, values});
}

}  // namespace trl::kernels
