#include "run/plan/generation.h"

#include "base/error.h"
#include "config/generation/generation_kwargs.h"
#include "config/generation/trainer_generation.h"
#include "config/training_arguments.h"
#include "run/complete/open_generator.h"
#include "run/complete/request_options.h"

namespace trl::run {

namespace {

constexpr const char *kTokens = "estimate.prompt_tokens", *kPrompts = "estimate.prompts";

// Makes prompts that begin with different ids, so that none shares the keys of another.
std::vector<std::vector<int32_t>> distinct_prompts(int64_t count, int64_t tokens) {
  std::vector<std::vector<int32_t>> all(static_cast<size_t>(count));
  for (size_t i = 0; i < all.size(); ++i) {
    all[i].assign(static_cast<size_t>(tokens), 0);
    size_t left = i;
    for (size_t bit = 0; bit < all[i].size() && left > 0; ++bit, left /= 2)
      all[i][bit] = static_cast<int32_t>(left % 2);
  }
  return all;
}

std::vector<std::vector<int32_t>> asked_prompts(const config::Config& options) {
  constexpr int64_t kMost = int64_t{1} << 24;
  const std::optional<int64_t> tokens = options.get_optional_int(kTokens);
  if (!tokens) {
    if (options.is_set(kPrompts))
      fail_key(kPrompts, "{}: {} needs {}, which says how long they are", kPrompts, options.get(kPrompts),
               kTokens);
    return {};
  }
  const int64_t prompts = options.get_int(kPrompts);
  if (*tokens > kMost / prompts)
    fail_key(kTokens, "{}: {} prompts of {} tokens are more than the {} tokens that a plan can have", kTokens,
             prompts, *tokens, kMost);
  return distinct_prompts(prompts, *tokens);
}

}  // namespace

std::unique_ptr<const Generation> generation_of(Environment& environment, const config::Config& options,
                                                std::span<const SamplePrompt> prompts, int64_t longest) {
  auto out = std::make_unique<Generation>();
  out->asked = asked_prompts(options);
  for (const SamplePrompt& prompt : prompts) out->samples.push_back(prompt.ids);
  const config::OnlineArguments online =
      longest > 0 ? config::online_arguments(options) : config::OnlineArguments();
  const bool writes = longest > 0 && !online.server;
  if (writes) {
    out->rollouts = distinct_prompts(online.prompts_per_generation, longest);
    out->of_rollouts = {out->rollouts, online.num_generations, online.longest_completion(),
                        config::length_key(options)};
  }
  const bool generates = !out->asked.empty() || !out->samples.empty() || writes;
  out->spec = generates ? training_generator_spec(environment, options) : cache_spec(options);
  const config::Config generation = config::with_generation_kwargs(options);
  if (!out->samples.empty())
    out->of_samples = {out->samples, completions_of(generation),
                       config::sample_arguments(options).max_new_tokens,
                       "sample_prompts, sample_max_new_tokens"};
  out->of_asked = {out->asked, generation.get_int("generate.num_return_sequences"),
                   generation.get_int("generate.max_new_tokens"),
                   "estimate.prompt_tokens, generate.max_new_tokens"};
  return out;
}

}  // namespace trl::run
