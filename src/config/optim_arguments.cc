// optim_args for the optimizers that Trainer hands them to; the others take none.
#include "config/optim_arguments.h"

#include <algorithm>

#include "base/error.h"
#include "config/named_values.h"
#include "config/option.h"
#include "config/value.h"

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

void sgd(NamedValues& values, OptimArguments& out) {
  values.number("momentum", ">= 0", out.momentum);
  values.number("dampening", ">= 0", out.dampening);
  values.flag("nesterov", out.nesterov);
  values.flag("maximize", out.maximize);
  if (out.nesterov && (out.momentum == 0 || out.dampening != 0)) {
    fail_key(kOptimArgs, "{}: nesterov needs a momentum above 0 and a dampening of 0", kOptimArgs);
  }
}

void rmsprop(NamedValues& values, OptimArguments& out) {
  values.number("alpha", "[0, 1]", out.alpha);
  values.number("eps", ">= 0", out.eps);
  values.number("momentum", ">= 0", out.momentum);
  values.flag("centered", out.centered);
  values.flag("maximize", out.maximize);
}

void adagrad(NamedValues& values, OptimArguments& out) {
  out.eps = 1e-10;
  values.number("lr_decay", ">= 0", out.lr_decay);
  values.number("eps", ">= 0", out.eps);
  values.number("initial_accumulator_value", ">= 0", out.initial_accumulator_value);
  values.flag("maximize", out.maximize);
}

}  // namespace

Optim optim(const Config& config) {
  std::string name = config.get("optim");
  if (config.get_bool("adafactor")) {
    if (config.is_set("optim") && name != "adafactor") {
      fail_key("adafactor", "adafactor: true and optim: {} are both set: give optim alone", name);
    }
    name = "adafactor";
  }
  if (name == "sgd") return Optim::sgd;
  if (name == "rmsprop") return Optim::rmsprop;
  if (name == "adagrad") return Optim::adagrad;
  if (name == "adafactor") return Optim::adafactor;
  return name == "lion_32bit" ? Optim::lion : Optim::adamw;
}

OptimArguments optim_arguments(const Config& config) {
  OptimArguments out;
  const Optim chosen = optim(config);
  const std::string name = chosen == Optim::adafactor ? "adafactor" : config.get("optim");
  NamedValues values(kOptimArgs, "optim " + name, pairs(config.get_text(kOptimArgs).value_or("")));
  if (chosen == Optim::sgd || chosen == Optim::rmsprop || chosen == Optim::adagrad)
    values.number("weight_decay", ">= 0", out.weight_decay);
  if (chosen == Optim::sgd) sgd(values, out);
  if (chosen == Optim::rmsprop) rmsprop(values, out);
  if (chosen == Optim::adagrad) adagrad(values, out);
  values.finish();
  return out;
}

}  // namespace trl::config
