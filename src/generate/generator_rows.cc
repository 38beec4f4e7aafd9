// The rows of a step: hidden states of those that are computed, and logits of those that are wanted.
#include <algorithm>
#include <utility>

#include "generate/generator.h"
#include "kernels/gemm/gemm.h"
#include "tensor/device.h"
#include "tensor/memory/rehearsal.h"

namespace trl::generate {

namespace {

// Rows whose logits exist at once; those of a sequence do.
constexpr int64_t kLogitRows = 64;
static_assert(engine::Speculation::kMostTokens < kLogitRows);

}  // namespace

// Computed are steps with more rows or logits than any before, after the keys have grown by a fiftieth, and
// the last of each sequence. The others choose some token of each sequence.
bool Generator::is_left_out(const model::SequenceRows& rows, const std::vector<Choice>& choices) {
  if (tensor::Rehearsal::current() == nullptr) return false;
  const Rehearsed::Size size{std::ssize(rows.ids), std::ssize(rows.wanted)};
  const int64_t bytes = cache_->memory.bytes();
  const bool known = std::ranges::any_of(rehearsed_.sizes, [&](const Rehearsed::Size& other) {
    return size.rows <= other.rows && size.ready <= other.ready;
  });
  const bool ends =
      std::ranges::any_of(choices, [&](const Choice& one) { return states_.at(one.sequence).left == 1; });
  if (known && !ends && bytes - rehearsed_.key_bytes <= rehearsed_.key_bytes / 50) return true;
  if (!known) rehearsed_.sizes.push_back(size);
  rehearsed_.key_bytes = bytes;
  return false;
}

void Generator::add_rows(const Scheduler::Work& work, model::SequenceRows& rows) {
  const std::span<const int32_t> ids =
      scheduler_->ids(work.sequence).subspan(static_cast<size_t>(work.first));
  rows.ids.insert(rows.ids.end(), ids.begin(), ids.begin() + work.count - work.tentative);
  const auto tentative = scheduler_->tentative(work.sequence).first(static_cast<size_t>(work.tentative));
  rows.ids.insert(rows.ids.end(), tentative.begin(), tentative.end());
  std::vector<at::Tensor> blocks;
  for (const int32_t id : scheduler_->blocks(work.sequence)) blocks.push_back(block(id));
  // Rows whose keys were computed in different calls, if that matters, are runs of their own.
  for (int64_t position = work.first, end = work.first + work.count; position < end;) {
    model::SequenceRows::Run run(end - position, position);
    run.blocks = blocks;
    run.adapter = adapter_of(work);
    if (std::ssize(scheduler_->ids(work.sequence)) > scheduler_->limits().common_length) {
      run.reach = scheduler_->reach(work.sequence, position);
      run.rows = std::min(run.rows, run.reach - position);
    }
    position += run.rows;
    rows.runs.push_back(std::move(run));
  }
}

// Adds the ids of a prompt that follow these positions and have not been told, and wants their rows. The last
// position of a prompt is followed by a choice.
void Generator::add_scored(const Scheduler::Work& work, model::SequenceRows& rows,
                           std::vector<Scored>& scored) const {
  const State& state = states_.at(work.sequence);
  if (state.request->sampling.prompt_best < 0) return;
  const std::vector<int32_t>& ids = state.request->ids;
  const int64_t first_row = std::ssize(rows.ids) - work.count;
  const int64_t end = std::min(work.first + work.count, std::ssize(ids) - 1);
  for (int64_t place = std::max(work.first, state.told->ids - 1); place < end; ++place) {
    scored.push_back({work.sequence,
                      std::ssize(rows.wanted),
                      {.position = place + 1, .id = ids[static_cast<size_t>(place) + 1]}});
    rows.wanted.push_back(first_row + place - work.first);
  }
}

Generator::Results Generator::compute(const std::vector<const Scheduler::Work*>& all) {
  model::SequenceRows rows;
  rows.int8 = cache_->memory.int8();
  Results made;
  for (const Scheduler::Work* work : all) {
    add_rows(*work, rows);
    add_scored(*work, rows, made.scored);
    if (work->ready.empty()) continue;
    const int64_t count = 1 + work->tentative;
    for (const int64_t sequence : work->ready) {
      made.choices.push_back({sequence, std::ssize(rows.wanted), count});
      made.choices.back().tokens.push_back(
          {.id = static_cast<int32_t>(sequence % 2)});  // chosen by a rehearsal
    }
    for (int64_t row = std::ssize(rows.ids) - count; row < std::ssize(rows.ids); ++row)
      rows.wanted.push_back(row);
  }
  if (is_left_out(rows, made.choices)) return made;
  const kernels::IndependentRows independent;
  const model::Output output = model_.extend(rows, cache_->kind.compute, cache_->narrow());
  std::vector<Need> needs;
  for (Choice& choice : made.choices) needs.push_back({choice.row, choice.rows, &choice, nullptr});
  for (Scored& scored : made.scored) needs.push_back({scored.row, 1, nullptr, &scored});
  std::ranges::stable_sort(needs, {}, &Need::row);
  for (size_t done = 0, end; done < needs.size(); done = end) {
    const int64_t row = needs[done].row;
    int64_t count = 0;
    for (end = done; end < needs.size(); ++end) {
      const int64_t with = needs[end].row + needs[end].rows - row;
      if (with > kLogitRows) break;
      count = with;
    }
    const model::Output part{output.hidden.narrow(0, row, count), {}, output.head};
    const tensor::Stage stage(kLogitsStage);
    const at::Tensor logits = tensor::on_host(model_.logits(part, cache_->kind.compute));
    fulfil_all(std::span(needs).subspan(done, end - done), logits);
  }
  return made;
}

}  // namespace trl::generate
