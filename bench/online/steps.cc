#include "online/steps.h"

#include <algorithm>
#include <cmath>

#include "online/roof.h"

namespace trl::bench {

namespace {

// Adds the shares of the roofline that our updates and whole steps reach.
void add_shares(const OnlineSettings& s, const std::vector<Json>& runs, Json& line) {
  const Json gemm = run_json({TRL_GEMM_BENCH, "--threads", std::to_string(s.threads)});
  const Architecture model = architecture_of(describe_model(s.model));
  OnlineStep step;
  step.group = static_cast<double>(s.group);
  step.longest = static_cast<double>(s.completion);
  step.written = part_of(runs, "loss_tokens");
  step.prompt = (runs.front().at("tokens").back().get<double>() - step.written) / step.group;
  if (s.lora > 0) step.adapter = runs.front().at("adapter_parameters");
  step.wide = s.precision == "fp32";
  step.reference = s.method == "rloo";
  const double update = update_roof(model, step, gemm);
  line["prompt"] = std::round(step.prompt);
  line["written"] = step.written;
  line["peak_gflops"] = gemm.at(step.wide ? "fp32_gflops" : "bf16_gflops");
  line["gb_s"] = gemm.at("gb_s");
  line["share_of_update"] = update / part_of(runs, "update");
  const bool writes = line.at("part") == "step";
  const double before = reference_roof(model, step, gemm) + (writes ? generation_roof(model, step, gemm) : 0);
  line["share_of_step"] = (update + before) / line.at("step_seconds").get<double>();
}

// Losses below this count as it, because they are differences of larger numbers: of log-probabilities of
// whole completions, which TRL adds up in float32, and of advantages whose mean is 0.
double least_loss(const std::string& method) {
  if (method == "rloo") return 100;
  if (method == "online_dpo") return 10;
  return method == "ppo" ? 1 : 0;
}

// Compares what both sides compute on given completions. RLOO's loss is near 0 where the policy wrote them,
// and the first of Online DPO does not depend on them: their gradients must be equal, too.
Json compare_losses(const OnlineSettings& s, const Json& ours, const Json& theirs) {
  Json line = equality_line(s.precision, ours, theirs, least_loss(s.method));
  line["method"] = s.method;
  line["part"] = "update";
  if (!theirs.contains("grad_norms")) return line;
  const double bound = s.precision == "fp32" ? 1e-3 : 5e-2;
  const std::vector<double> own = ours.at("grad_norms"), other = theirs.at("grad_norms");
  double worst = 0;
  for (size_t i = 0; i < own.size(); ++i)
    worst = std::max(worst, std::abs(own[i] - other.at(i)) / std::abs(other[i]));
  line["gradient_norms"] = {own, other};
  line["largest_relative_difference_of_norms"] = worst;
  if (s.method == "rloo" || s.method == "online_dpo")
    line["equal"] = line.at("equal").get<bool>() && worst <= bound;
  return line;
}

}  // namespace

bool compare_steps(const OnlineSettings& s, const Scratch& scratch, bool writes) {
  const OnlineShape shape{s.prompt, s.completion, s.group, true};
  const std::string part = writes ? "step" : "update";
  const SftWork ours = our_work(s, scratch, shape, s.steps, writes),
                theirs = online_work(s, scratch, shape, s.peer_steps, writes);
  bool equal = true;
  if (!writes && !s.peer.empty()) {
    const Json line = compare_losses(s, run_ours(our_work(s, scratch, shape, s.peer_steps, false)),
                                     run_trl(s.peer, theirs));
    print(line);
    equal = line.at("equal");
  }
  std::vector<Json> own, peer;
  interleave(s.peer.empty() ? 1 : 2, s.rounds, [&](size_t i) {
    i == 0 ? own.push_back(run_ours(ours)) : peer.push_back(run_trl(s.peer, theirs));
  });
  const double seconds = warm_median(own, "seconds");
  Json line = {{"method", s.method},
               {"part", part},
               {"step_seconds", seconds},
               {"waiting_seconds", warm_median(own, "waiting")},
               {"tokens", warm_median(own, "tokens")}};
  if (s.has_groups()) add_shares(s, own, line);
  for (const char* name : {"generate", "reward", "old", "reference", "update", "gemm", "attention",
                           "elementwise", "head", "optimizer", "other"})
    line[std::string(name) + "_seconds"] = part_of(own, name);
  line["peak_resident_bytes"] = median_of(own, "peak_resident_bytes");
  if (!peer.empty()) {
    const double other = warm_median(peer, "seconds");
    line["trl_step_seconds"] = other;
    line["trl_tokens"] = warm_median(peer, "tokens");
    line["times_faster"] = other / seconds;
    line["trl_peak_resident_bytes"] = median_of(peer, "peak_resident_bytes");
  }
  print(line);
  return equal;
}

}  // namespace trl::bench
