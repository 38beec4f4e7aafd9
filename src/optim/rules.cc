// The elementwise optimizers as in torch.optim (Lion as in bitsandbytes): constants of a step, computed in
// double.
#include "optim/rules.h"

#include <algorithm>
#include <cmath>

namespace trl::optim {

Rule adam(const AdamOptions& o) {
  Rule rule;
  rule.state = {{"exp_avg"}, {"exp_avg_sq", Codec::unsigned_dynamic}};
  if (o.amsgrad) rule.state.push_back({"max_exp_avg_sq", Codec::unsigned_dynamic});
  rule.at = [o](int64_t step, double learning_rate) -> Update {
    const double correction1 = 1.0 - std::pow(o.beta1, static_cast<double>(step));
    const double correction2 = 1.0 - std::pow(o.beta2, static_cast<double>(step));
    Adam adam{};
    adam.beta1 = static_cast<float>(o.beta1);
    adam.beta2 = static_cast<float>(o.beta2);
    adam.rest1 = static_cast<float>(1.0 - o.beta1);
    adam.rest2 = static_cast<float>(1.0 - o.beta2);
    adam.step_size = static_cast<float>(learning_rate / correction1);
    adam.root_correction = static_cast<float>(std::sqrt(correction2));
    adam.epsilon = static_cast<float>(o.epsilon);
    adam.learning_rate = learning_rate;
    adam.decoupled = o.decoupled;
    adam.amsgrad = o.amsgrad;
    return adam;
  };
  return rule;
}

Rule sgd(const config::OptimArguments& o) {
  Rule rule;
  const bool buffered = o.momentum != 0;
  if (buffered) rule.state = {{"momentum_buffer"}};
  rule.maximize = o.maximize;
  rule.at = [o, buffered](int64_t step, double learning_rate) -> Update {
    Sgd sgd{};
    sgd.momentum = static_cast<float>(o.momentum);
    // The buffer starts as a gradient.
    sgd.undamped = static_cast<float>(step == 1 ? 1.0 : 1.0 - o.dampening);
    sgd.of_gradient = o.nesterov ? 1.0f : 0.0f;
    sgd.of_buffer = o.nesterov ? sgd.momentum : 1.0f;
    sgd.learning_rate = static_cast<float>(learning_rate);
    sgd.buffered = buffered;
    return sgd;
  };
  return rule;
}

Rule rmsprop(const config::OptimArguments& o) {
  Rule rule;
  rule.state = {{"square_avg"}};
  if (o.centered) rule.state.push_back({"grad_avg"});
  if (o.momentum > 0) rule.state.push_back({"momentum_buffer"});
  rule.maximize = o.maximize;
  rule.at = [o](int64_t, double learning_rate) -> Update {
    Rmsprop step{};
    step.alpha = static_cast<float>(o.alpha);
    step.rest = static_cast<float>(1.0 - o.alpha);
    step.epsilon = static_cast<float>(o.eps);
    step.momentum = static_cast<float>(o.momentum);
    step.learning_rate = static_cast<float>(learning_rate);
    step.centered = o.centered;
    step.buffered = o.momentum > 0;
    return step;
  };
  return rule;
}

Rule adagrad(const config::OptimArguments& o) {
  Rule rule;
  rule.state = {{"sum"}};
  rule.initial = o.initial_accumulator_value;
  rule.maximize = o.maximize;
  rule.at = [o](int64_t step, double learning_rate) -> Update {
    Adagrad adagrad{};
    adagrad.learning_rate =
        static_cast<float>(learning_rate / (1.0 + static_cast<double>(step - 1) * o.lr_decay));
    adagrad.epsilon = static_cast<float>(o.eps);
    return adagrad;
  };
  return rule;
}

// Lion (Chen et al. 2023).
Rule lion(double beta1, double beta2) {
  Rule rule;
  rule.state = {{"exp_avg"}};
  rule.at = [=](int64_t, double learning_rate) -> Update {
    Lion lion{};
    lion.beta1 = static_cast<float>(beta1);
    lion.beta2 = static_cast<float>(beta2);
    lion.rest1 = static_cast<float>(1.0 - beta1);
    lion.rest2 = static_cast<float>(1.0 - beta2);
    lion.learning_rate = learning_rate;
    return lion;
  };
  return rule;
}

namespace {

// AdEMAMix (Pagliardini et al. 2024, section 3): alpha and beta3 grow to their final values over the first
// steps, alpha linearly, beta3 so that the half-life grows linearly.
double alpha_at(const config::AdemamixArguments& o, double step) {
  return o.t_alpha == 0 ? o.alpha : std::min(step * o.alpha / static_cast<double>(o.t_alpha), o.alpha);
}
double beta3_at(const config::AdemamixArguments& o, double step) {
  if (o.t_beta3 == 0) return o.beta3;
  const double first = std::log(o.beta1), last = std::log(o.beta3);
  const double share = step / static_cast<double>(o.t_beta3);
  return std::min(std::exp(first * last / ((1 - share) * last + share * first)), o.beta3);
}

}  // namespace

Rule ademamix(const config::AdemamixArguments& o) {
  Rule rule;
  rule.state = {{"exp_avg"}, {"exp_avg_slow"}, {"exp_avg_sq", Codec::unsigned_dynamic}};
  rule.at = [o](int64_t t, double learning_rate) -> Update {
    const auto step = static_cast<double>(t);
    const double beta3 = beta3_at(o, step);
    Ademamix out{};
    out.beta1 = static_cast<float>(o.beta1);
    out.beta2 = static_cast<float>(o.beta2);
    out.beta3 = static_cast<float>(beta3);
    out.rest1 = static_cast<float>(1.0 - o.beta1);
    out.rest2 = static_cast<float>(1.0 - o.beta2);
    out.rest3 = static_cast<float>(1.0 - beta3);
    out.correction1 = static_cast<float>(1.0 - std::pow(o.beta1, step));
    out.root_correction = static_cast<float>(std::sqrt(1.0 - std::pow(o.beta2, step)));
    out.alpha = static_cast<float>(alpha_at(o, step));
    out.epsilon = static_cast<float>(o.eps);
    out.learning_rate = learning_rate;
    return out;
  };
  return rule;
}

}  // namespace trl::optim
