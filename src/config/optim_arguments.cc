// optim_args for the optimizers to which Trainer passes them; the others accept none.
#include "config/optim_arguments.h"

#include <algorithm>

#include "base/error.h"
#include "config/named_values.h"
#include "config/option.h"
#include "config/option_value.h"

namespace trl::config {

namespace {

constexpr std::string_view kOptimArgs = "optim_args";

std::vector<std::pair<std::string, std::string>> pairs(const std::string& text) {
  std::vector<std::pair<std::string, std::string>> out;
  for (const std::string_view item : split_words(text, ',')) {
    const std::vector<std::string_view> sides = split_words(item, '=');
    if (sides.size() != 2) {
      fail_key(kOptimArgs, "{}: {} is not accepted; give name=value, with commas between them", kOptimArgs,
               shown(item));
    }
    if (std::any_of(out.begin(), out.end(), [&](const auto& before) { return before.first == sides[0]; }))
      fail_key(kOptimArgs, "{}: {} is given twice", kOptimArgs, sides[0]);
    out.emplace_back(sides[0], sides[1]);
  }
  return out;
}

void weight_decay(NamedValues& values, OptimArguments& out) {
  values.number("weight_decay", ">= 0", out.weight_decay);
}

void sgd(NamedValues& values, OptimArguments& out) {
  weight_decay(values, out);
  values.number("momentum", ">= 0", out.momentum);
  values.number("dampening", ">= 0", out.dampening);
  values.flag("nesterov", out.nesterov);
  values.flag("maximize", out.maximize);
  if (out.nesterov && (out.momentum == 0 || out.dampening != 0)) {
    fail_key(kOptimArgs, "{}: nesterov needs a momentum above 0 and a dampening of 0", kOptimArgs);
  }
}

void rmsprop(NamedValues& values, OptimArguments& out) {
  weight_decay(values, out);
  values.number("alpha", "[0, 1]", out.alpha);
  values.number("eps", ">= 0", out.eps);
  values.number("momentum", ">= 0", out.momentum);
  values.flag("centered", out.centered);
  values.flag("maximize", out.maximize);
}

// Reads bitsandbytes' RMSprop: its momentum does nothing and it has no centered form, so neither is accepted.
void rmsprop_of_bitsandbytes(NamedValues& values, OptimArguments& out) {
  weight_decay(values, out);
  values.number("alpha", "(0, 1)", out.alpha);
  values.number("eps", ">= 0", out.eps);
}

void ademamix(NamedValues& values, const Config& config, AdemamixArguments& out) {
  out.beta1 = config.get_double("adam_beta1");
  out.beta2 = config.get_double("adam_beta2");
  out.eps = config.get_double("adam_epsilon");
  for (const auto& [name, beta] :
       {std::pair("beta1", &out.beta1), std::pair("beta2", &out.beta2), std::pair("beta3", &out.beta3)}) {
    values.number(name, "[0, 1)", *beta);
  }
  values.number("alpha", ">= 0", out.alpha);
  values.number("eps", ">= 0", out.eps);
  values.integer("t_alpha", ">= 0", out.t_alpha);
  values.integer("t_beta3", ">= 0", out.t_beta3);
  if (out.t_beta3 > 0 && (out.beta1 == 0 || out.beta3 == 0))
    fail_key(kOptimArgs, "{}: t_beta3 needs a beta1 and a beta3 above 0", kOptimArgs);
}

void adagrad(NamedValues& values, OptimArguments& out) {
  weight_decay(values, out);
  out.eps = 1e-10;
  values.number("lr_decay", ">= 0", out.lr_decay);
  values.number("eps", ">= 0", out.eps);
  values.number("initial_accumulator_value", ">= 0", out.initial_accumulator_value);
  values.flag("maximize", out.maximize);
}

}  // namespace

const OptimName& optim(const Config& config) {
  std::string name = config.get("optim");
  if (config.get_bool("adafactor")) {
    if (config.is_set("optim") && name != "adafactor") {
      fail_key("adafactor", "adafactor: true and optim: {} are both set: give optim alone", name);
    }
    name = "adafactor";
  }
  return optim_named("optim", name);
}

OptimArguments optim_arguments(const Config& config) {
  OptimArguments out;
  const OptimName& chosen = optim(config);
  NamedValues values(kOptimArgs, fmt::format("optim {}", chosen.name),
                     pairs(config.get_text(kOptimArgs).value_or("")));
  switch (chosen.optim) {
    case Optim::sgd:
      sgd(values, out);
      break;
    case Optim::rmsprop:
      chosen.states == OptimStates::as_weights ? rmsprop(values, out) : rmsprop_of_bitsandbytes(values, out);
      break;
    case Optim::adagrad:
      adagrad(values, out);
      break;
    case Optim::ademamix:
      ademamix(values, config, out.ademamix);
      break;
    case Optim::adamw:
    case Optim::adafactor:
    case Optim::lion:
      break;
  }
  values.finish();
  return out;
}

}  // namespace trl::config
