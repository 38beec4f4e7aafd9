#include "generate/local.h"

#include <algorithm>
#include <numeric>

#include "generate/roofline.h"

namespace trl::bench {

namespace {

constexpr int64_t kGroup = 8, kReleases = 5;

generate::CacheKind kind_of(const GenerateSettings& s, const Form& form) {
  generate::CacheKind kind = form.kind;
  kind.int8 = s.int8_cache;
  return kind;
}

Json line_of(const char* bench, const GenerateSettings& s, const Form& form) {
  return {{"bench", bench}, {"weights", form.name}, {"int8_cache", s.int8_cache}};
}

void add_parts(const tensor::PartTimes& times, double all, Json& line) {
  using tensor::Part;
  double inside = 0;
  for (const auto& [name, part] : {std::pair{"products", Part::gemm},
                                   {"attention", Part::attention},
                                   {"elementwise", Part::elementwise},
                                   {"head", Part::head}}) {
    line[name] = times.seconds(part) / all;
    inside += times.seconds(part);
  }
  line["outside"] = 1 - inside / all;
}

struct Prefill {
  std::vector<double> seconds, step;  // until all have a token; a step of decoding after that
  int64_t blocks = 0, blocks_at_end = 0;
};

void run_group(const GenerateSettings& s, Session& session, std::vector<int32_t> ids, int64_t count,
               Prefill& out) {
  const double begin = now();
  session.add(std::move(ids), s.steps + 3, count);
  session.run_until_all_began();
  out.seconds.push_back(now() - begin);
  out.blocks = session.generator().use().blocks;
  out.step.push_back(median(time_steps(session, s.steps).seconds));
  out.blocks_at_end = session.generator().use().blocks;
  session.end_all_but(0);
}

double forward_seconds(const model::Model& model, const Form& form, const std::vector<int32_t>& ids) {
  const auto count = static_cast<int32_t>(ids.size());
  const auto segments = std::make_shared<kernels::Segments>(kernels::Segments{{0, count}, count});
  const model::ForwardInput input{at::tensor(ids, at::kInt), at::arange(count, at::kInt), segments};
  const double begin = now();
  const at::NoGradGuard no_grad;
  model::Output output = model.forward(input, {.compute = form.kind.compute});
  output.hidden = output.hidden.narrow(0, count - 1, 1);
  model.logits(output, form.kind.compute);
  return now() - begin;
}

double resident() { return static_cast<double>(status_bytes("VmRSS")); }

}  // namespace

// All sequences are computed once, and measured from the most to the fewest: their contexts grow meanwhile.
void measure_steps(const GenerateSettings& s, const Machine& machine, model::Model& model, const Form& form,
                   Prompts& prompts) {
  const int64_t most = s.sequences.back(),
                new_tokens = (s.steps + 2) * (std::ssize(s.sequences) + 1) + 2 * most;
  Session session(model, kind_of(s, form), blocks_for(most, s.context + new_tokens), true);
  for (std::vector<int32_t>& ids : equal_texts(prompts, most, s.context, 0).prompts)
    session.add(std::move(ids), new_tokens);
  session.run_until_all_began();
  for (auto count = s.sequences.rbegin(); count != s.sequences.rend(); ++count) {
    session.end_all_but(*count);
    const Steps steps = time_steps(session, s.steps);
    const double seconds = median(steps.seconds);
    const StepCost cost = step_cost(model, session.cache(), *count, steps.context);
    Json line = line_of("steps", s, form);
    line["sequences"] = *count;
    line["context"] = steps.context;
    line["seconds"] = seconds;
    line["tokens_per_second"] = static_cast<double>(*count) / seconds;
    line["share_of_roofline"] = roof_seconds(machine, cost) / seconds;
    line["share_by_parts"] = roof_seconds_by_parts(machine, cost) / seconds;
    line["roofline"] = is_read(machine, cost) ? "reading" : "operations";
    line["gb_read"] = 1e-9 * (cost.weight_bytes + cost.cache_bytes);
    add_parts(steps.parts, std::accumulate(steps.seconds.begin(), steps.seconds.end(), 0.0), line);
    print(line);
  }
}

void measure_group(const GenerateSettings& s, model::Model& model, const Form& form, Prompts& prompts) {
  Session session(model, kind_of(s, form), blocks_for(kGroup + 2, s.prompt + s.steps + 3), true);
  run_group(s, session, prompts.next(s.prompt), 1, *std::make_unique<Prefill>());  // is not counted
  Prefill one, group;
  std::vector<double> forward;
  if (!form.kind.narrow) forward_seconds(model, form, prompts.next(s.prompt));
  interleave(3, s.rounds, [&](size_t i) {
    if (i == 0) return run_group(s, session, prompts.next(s.prompt), 1, one);
    if (i == 1) return run_group(s, session, prompts.next(s.prompt), kGroup, group);
    if (!form.kind.narrow) forward.push_back(forward_seconds(model, form, prompts.next(s.prompt)));
  });
  Json line = line_of("group", s, form);
  line["prompt"] = s.prompt;
  line["completions"] = kGroup;
  line["one_seconds"] = median(one.seconds);
  line["group_seconds"] = median(group.seconds);
  line["ratio"] = median(group.seconds) / median(one.seconds);
  line["one_blocks"] = one.blocks;
  line["group_blocks"] = group.blocks;
  line["one_blocks_later"] = one.blocks_at_end;
  line["group_blocks_later"] = group.blocks_at_end;
  line["group_tokens_per_second"] = static_cast<double>(kGroup) / median(group.step);
  if (!forward.empty()) {
    line["forward_seconds"] = median(forward);
    line["one_to_forward"] = median(one.seconds) / median(forward);
  }
  print(line);
}

// Sequences hold some of the blocks; the others have been written, too.
void measure_release(const GenerateSettings& s, model::Model& model, const Form& form, Prompts& prompts) {
  const generate::CacheKind kind = kind_of(s, form);
  const int64_t block = model.kv_memory(kind.compute, kind.int8).block_bytes();
  const auto blocks =
      std::max(blocks_for(2, s.context + kReleases + 4), static_cast<int64_t>(1e9 * s.pool) / block);
  Session session(model, kind, blocks, true);
  for (int i = 0; i < 2; ++i) session.add(prompts.next(s.context), kReleases + 4);
  session.run_until_all_began();
  std::vector<double> seconds, before, after, next;
  for (int64_t round = 0; round < kReleases; ++round) {
    session.fill_memory();
    before.push_back(resident());
    const double begin = now();
    session.release_memory();
    seconds.push_back(now() - begin);
    after.push_back(resident());
    session.step();
    next.push_back(resident());
  }
  Json line = line_of("release", s, form);
  line["pool_bytes"] = blocks * block;
  line["seconds"] = median(seconds);
  line["most_seconds"] = *std::max_element(seconds.begin(), seconds.end());
  line["resident_before"] = median(before);
  line["resident_after"] = median(after);
  line["resident_after_a_step"] = median(next);
  print(line);
}

}  // namespace trl::bench
