#include "train/sft_report.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>

namespace trl::bench {

namespace {

// The mean over the steps after the first, where there are some.
double mean(const Json& steps) {
  double sum = 0, count = 0;
  for (size_t i = steps.size() > 1 ? 1 : 0; i < steps.size(); ++i, ++count) sum += steps[i].get<double>();
  return sum / count;
}

double profile(const std::vector<Json>& runs, const std::string& name) {
  std::vector<double> values;
  for (const Json& run : runs) values.push_back(mean(run.at("profile").at("profile/" + name)));
  return median(values);
}

double tokens_per_step(const std::vector<Json>& runs) {
  std::vector<double> values;
  for (const Json& run : runs) values.push_back(mean(run.at("tokens")));
  return median(values);
}

// To so many parts of one, in as few digits as they have.
double rounded(double value, double parts) { return std::round(value * parts) / parts; }

}  // namespace

Architecture architecture_of(const Json& description) {
  const Json& config = description.at("config");
  const auto number = [&](std::initializer_list<const char*> keys) {
    for (const char* key : keys) {
      if (config.contains(key) && config[key].is_number()) return config[key].get<double>();
    }
    return 0.0;
  };
  Architecture model;
  model.parameters = description.at("parameters").get<double>();
  const double hidden = number({"hidden_size", "n_embd"});
  model.head = number({"vocab_size"}) * hidden;
  const bool tied = config.value("tie_word_embeddings", false);
  model.layers = number({"num_hidden_layers", "n_layer"});
  const double idle = number({"num_experts", "num_local_experts"}) - number({"num_experts_per_tok"});
  const double expert = 3 * hidden * number({"moe_intermediate_size", "intermediate_size"});
  model.blocks = model.parameters - (tied ? 1 : 2) * model.head - std::max(0.0, idle) * expert * model.layers;
  const double heads = number({"num_attention_heads", "n_head"}), head_dim = number({"head_dim"});
  model.attention_width = head_dim > 0 ? heads * head_dim : hidden;
  return model;
}

// Bounds for the first step, which starts from the same weights; later ones also show the updates, where
// bfloat16 weights round each of them.
Json equality_line(const std::string& precision, const Json& ours, const Json& theirs, double least) {
  const double bound = precision == "fp32" ? 1e-5 : 1e-3;
  Json line = {{"bench", "sft"}, {"what", "equality"}, {"precision", precision}, {"by", theirs.at("by")}};
  line["tokens"] = {ours.at("tokens"), theirs.at("tokens")};
  line["losses"] = {ours.at("losses"), theirs.at("losses")};
  double worst = 0;
  for (size_t i = 0; i < ours["losses"].size(); ++i) {
    const double a = ours["losses"][i], b = theirs["losses"].at(i);
    worst = std::max(worst, std::abs(a - b) / std::max(std::abs(b), least));
  }
  line["largest_relative_difference"] = worst;
  line["bound"] = bound;
  line["equal"] = worst <= bound && ours["tokens"] == theirs["tokens"];
  if (theirs.contains("attention")) line["attention"] = theirs["attention"];
  return line;
}

// AdamW keeps weights, gradients and two states in the type of the weights; an adapter's is float32. A block
// of 64 weights in 4 bits has a float32 scale.
double states_bytes(const std::string& precision, const Architecture& model, double adapter, bool four_bit) {
  const double width = precision == "bf16" ? 2 : 4, blocks = four_bit ? 0.5 + 4.0 / 64 : width;
  if (adapter == 0) return model.parameters * width * 4;
  return model.blocks * blocks + (model.parameters - model.blocks) * width + adapter * 4 * 4;
}

Json speed_line(const std::string& name, const std::string& precision, double states,
                const std::vector<Json>& runs) {
  Json line = {{"bench", "sft"}, {"by", runs.front().at("by")}, {"setting", name}, {"precision", precision}};
  const Speed speed = speed_of(runs);
  line["tokens_per_second"] = rounded(speed.mean, 10);
  line["median"] = rounded(speed.median, 10);
  line["smallest"] = rounded(speed.smallest, 10);
  line["largest"] = rounded(speed.largest, 10);
  line["warm_steps"] = speed.steps;
  line["tokens_per_step"] = rounded(tokens_per_step(runs), 1);
  const double peak = median_of(runs, "peak_resident_bytes");
  line["peak_resident_bytes"] = peak;
  line["states_bytes"] = states;
  line["beyond_states_bytes"] = peak - states;
  line["first_step_seconds"] = rounded(median_of(runs, "first_step_seconds"), 1000);
  line["runs"] = runs.size();
  return line;
}

void add_ratios(Json& theirs, const Json& ours) {
  if (ours.at("by") == theirs.at("by")) return;
  const auto ratio = [&](const char* key) {
    return rounded(ours.at(key).get<double>() / theirs.at(key).get<double>(), 1000);
  };
  Json& ratios = theirs["ratios_of_ours"][ours.at("setting").get<std::string>()];
  ratios["speed"] = ratio("tokens_per_second");
  if (theirs.at("precision") != ours.at("precision")) return;
  ratios["memory"] = ratio("peak_resident_bytes");
  ratios["memory_beyond_states"] = ratio("beyond_states_bytes");
}

// A token costs 6 N_b + 6 N_h phi + 7 L d S operations, forward and backward, attention recomputed once.
// Frozen weights have no gradients and cost 4; the adapter's N_a = sum of r (in + out) parameters cost 6.
Json roofline_line(const std::string& name, const std::string& precision, const Architecture& model,
                   double adapter, const Json& gemm, const std::vector<Json>& runs) {
  const double phi = profile(runs, "loss_tokens") / tokens_per_step(runs);
  const double length = profile(runs, "document_length");
  const double each = adapter > 0 ? 4 : 6;
  const double operations = each * (model.blocks + model.head * phi) + 6 * adapter +
                            7 * model.layers * model.attention_width * length;
  const double peak = gemm.at(precision == "fp32" ? "fp32_gflops" : "bf16_gflops").get<double>();
  const double speed = speed_of(runs).mean;
  Json line = {{"bench", "sft"}, {"what", "roofline"}, {"setting", name}};
  line["peak_gflops"] = peak;
  line["N_b"] = model.blocks;
  line["N_h"] = model.head;
  if (adapter > 0) line["N_a"] = adapter;
  line["phi"] = rounded(phi, 10000);
  line["L"] = model.layers;
  line["d"] = model.attention_width;
  line["S"] = rounded(length, 10);
  line["gflop_per_token"] = rounded(operations / 1e9, 10000);
  line["bound_tokens_per_second"] = rounded(peak * 1e9 / operations, 10);
  line["share"] = rounded(speed * operations / (peak * 1e9), 1000);
  return line;
}

// Shares of a step's time; the head's products count as the head's.
Json parts_line(const std::string& name, const std::vector<Json>& runs) {
  constexpr const char* kParts[] = {"gemm", "attention", "elementwise", "head", "optimizer", "other"};
  double sum = 0;
  for (const char* part : kParts) sum += profile(runs, part);
  Json line = {{"bench", "sft"}, {"what", "parts"}, {"setting", name}};
  line["seconds_per_step"] = rounded(sum, 10000);
  for (const char* part : kParts) line["share"][part] = rounded(profile(runs, part) / sum, 1000);
  return line;
}

}  // namespace trl::bench
