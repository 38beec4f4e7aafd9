#include "generate/generator.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "generate/logits.h"
#include "generate/sampling.h"
#include "kernels/gemm/gemm.h"
#include "kernels/head/log_probability.h"
#include "tensor/device.h"
#include "tensor/threads/parallel.h"

namespace trl::generate {

namespace {

// Rows whose logits exist at once.
constexpr int64_t kLogitRows = 64;

}  // namespace

Limits limits_for(const model::Model& model, at::ScalarType compute, int64_t bytes) {
  const model::RopeConfig& rope = model.config().rope;
  Limits limits;
  limits.blocks = std::max<int64_t>(1, bytes / model.kv_memory(compute).block_bytes());
  limits.common_length = rope.common_positions();
  limits.recompute_longer = rope.type == "longrope";
  return limits;
}

Generator::Generator(const model::Model& model, at::ScalarType compute, Limits limits)
    : model_(model), compute_(compute), scheduler_(limits), memory_(model.kv_memory(compute)) {}

int64_t Generator::add(Request request) {
  check_sampling(request.sampling);
  if (request.ids.empty()) fail(Status::invalid_argument, "the prompt is empty; give at least one token");
  const int64_t wanted = Scheduler::blocks_of(std::ssize(request.ids) + 1),
                limit = scheduler_.limits().blocks;
  if (wanted > limit) {
    fail(Status::invalid_argument,
         "the prompt has {} tokens, whose keys and values take {} bytes: all of the cache is {} bytes",
         request.ids.size(), wanted * block_bytes(), limit * block_bytes());
  }
  const auto shared = std::make_shared<const Request>(std::move(request));
  const uint64_t number = numbers_.try_emplace(shared->adapter, numbers_.size()).first->second;
  const int64_t first = scheduler_.add(shared->ids, shared->count, number);
  for (int64_t i = 0; i < shared->count; ++i)
    states_[first + i] = {.request = shared,
                          .stream = shared->stream + static_cast<uint64_t>(i),
                          .begin = std::ssize(shared->ids),
                          .left = shared->sampling.max_new_tokens};
  return first;
}

void Generator::extend(int64_t sequence, std::span<const int32_t> ids, int64_t max_new_tokens) {
  scheduler_.extend(sequence, ids);
  State& state = states_.at(sequence);
  state.begin = std::ssize(scheduler_.ids(sequence));
  state.left = max_new_tokens;
}

void Generator::end(int64_t sequence) {
  scheduler_.end(sequence);
  states_.erase(sequence);
}

// Sequences are computed together, in the order of their adapters, unless these change more than projections.
bool Generator::step(Receiver& receiver) {
  const at::NoGradGuard no_grad;
  const Scheduler::Step step = scheduler_.next();
  if (step.empty()) return false;
  for (const auto& [from, to] : step.copies) tensor::copy(memory_.block(from), memory_.block(to));
  std::map<const model::Adapter*, std::vector<const Scheduler::Work*>> groups;
  for (const Scheduler::Work& work : step.work) {
    const model::Adapter* const adapter = adapter_of(work);
    groups[model_.only_adds_terms(adapter) ? nullptr : adapter].push_back(&work);
  }
  std::vector<Choice> choices;
  for (auto& [adapter, work] : groups) {
    std::ranges::stable_sort(work, {}, [&](const auto* one) { return adapter_of(*one); });
    const std::vector<Choice> made = compute(work);
    choices.insert(choices.end(), made.begin(), made.end());
  }
  scheduler_.done(step);
  std::ranges::sort(choices, {}, &Choice::sequence);
  for (const Choice& choice : choices) pass_on(choice, receiver);
  return true;
}

void Generator::add_rows(const Scheduler::Work& work, model::SequenceRows& rows) {
  const std::span<const int32_t> ids = scheduler_.ids(work.sequence).subspan(static_cast<size_t>(work.first));
  rows.ids.insert(rows.ids.end(), ids.begin(), ids.begin() + work.count);
  std::vector<at::Tensor> blocks;
  for (const int32_t block : scheduler_.blocks(work.sequence)) blocks.push_back(memory_.block(block));
  // Rows whose keys were computed in different calls, if that matters, are runs of their own.
  for (int64_t position = work.first, end = work.first + work.count; position < end;) {
    model::SequenceRows::Run run(end - position, position);
    run.blocks = blocks;
    run.adapter = adapter_of(work);
    if (std::ssize(scheduler_.ids(work.sequence)) > scheduler_.limits().common_length) {
      run.reach = scheduler_.reach(work.sequence, position);
      run.rows = std::min(run.rows, run.reach - position);
    }
    position += run.rows;
    rows.runs.push_back(std::move(run));
  }
}

std::vector<Generator::Choice> Generator::compute(const std::vector<const Scheduler::Work*>& all) {
  model::SequenceRows rows;
  std::vector<Choice> choices;
  for (const Scheduler::Work* work : all) {
    add_rows(*work, rows);
    if (work->ready.empty()) continue;
    for (const int64_t sequence : work->ready) choices.push_back({sequence, std::ssize(rows.wanted)});
    rows.wanted.push_back(std::ssize(rows.ids) - 1);
  }
  const kernels::IndependentRows independent;
  const model::Output output = model_.extend(rows, compute_);
  size_t done = 0;
  for (int64_t row = 0, count; row < std::ssize(rows.wanted); row += count) {
    count = std::min(kLogitRows, std::ssize(rows.wanted) - row);
    const model::Output part{output.hidden.narrow(0, row, count), {}, output.head};
    const at::Tensor logits = tensor::on_host(model_.logits(part, compute_));
    size_t end = done;
    while (end < choices.size() && choices[end].row < row + count) ++end;
    tensor::parallel_for(static_cast<int64_t>(end - done), 1, [&](int64_t begin, int64_t stop) {
      for (int64_t i = begin; i < stop; ++i) {
        Choice& choice = choices[done + static_cast<size_t>(i)];
        choose(choice, logits[choice.row - row]);
      }
    });
    done = end;
  }
  return choices;
}

void Generator::choose(Choice& choice, const at::Tensor& row) const {
  const State& state = states_.at(choice.sequence);
  const engine::Sampling& sampling = state.request->sampling;
  const float* const begin = row.data_ptr<float>();
  std::vector<float> logits(begin, begin + row.numel());
  choice.number = std::ranges::none_of(logits, [](float v) { return std::isnan(v); });
  if (!choice.number) return;
  const std::span<const int32_t> ids = scheduler_.ids(choice.sequence);
  process_logits(logits, ids, static_cast<size_t>(state.begin), sampling);
  Token& token = choice.token;
  const auto place = static_cast<uint64_t>(state.drawn);
  token.id = sampling.temperature == 0 ? choose_greedy(logits)
                                       : choose_sampled(logits, uniform(sampling.seed, state.stream, place));
  if (!sampling.log_probabilities) return;
  token.log_probability = kernels::log_probability(logits, token.id);
  const std::span<const float> whole(begin, logits.size());
  token.whole_log_probability =
      kernels::log_probability(whole, token.id, sampling.temperature > 0 ? sampling.temperature : 1.0);
}

void Generator::pass_on(const Choice& choice, Receiver& receiver) {
  State& state = states_.at(choice.sequence);
  if (!choice.number) {
    return finish(choice.sequence, Finish::failed, receiver,
                  fmt::format("token {}: the model's output is not a number", state.drawn));
  }
  scheduler_.append(choice.sequence, choice.token.id);
  ++state.drawn;
  --state.left;
  const auto& stops = state.request->sampling.stop_ids;
  const bool stops_here = std::ranges::find(stops, choice.token.id) != stops.end();
  const int64_t length = std::ssize(scheduler_.ids(choice.sequence));
  if (!receiver.on_token(choice.sequence, choice.token))
    finish(choice.sequence, Finish::receiver, receiver);
  else if (stops_here)
    finish(choice.sequence, Finish::stop_id, receiver);
  else if (state.left == 0)
    finish(choice.sequence, Finish::length, receiver);
  else if (Scheduler::blocks_of(length) > scheduler_.limits().blocks)
    finish(choice.sequence, Finish::failed, receiver,
           fmt::format("{} tokens: no more keys and values fit into the cache of {} bytes", length,
                       scheduler_.limits().blocks * block_bytes()));
}

void Generator::finish(int64_t sequence, Finish how, Receiver& receiver, const std::string& error) {
  if (states_.at(sequence).request->pauses && how != Finish::failed)
    scheduler_.pause(sequence);
  else
    end(sequence);
  receiver.on_end(sequence, how, error);
}

}  // namespace trl::generate
