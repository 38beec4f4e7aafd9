#include "online/fit.h"

#include "support/fit.h"

namespace trl::bench {

void fit_updates(const OnlineSettings& s, const Scratch& scratch) {
  std::vector<Point> points;
  for (const int64_t prompt : {s.prompt / 4, s.prompt}) {
    for (const int64_t group : {2, 8, 32}) {
      const OnlineShape shape{prompt, s.completion / 4, group};
      const Json run = run_ours(our_work(s, scratch, shape, s.steps, false));
      const double seconds = part_of({run}, "update");
      const auto p = static_cast<double>(prompt), r = static_cast<double>(shape.completion * group);
      points.push_back({{p, r, 1}, seconds});
      print({{"part", "fit"},
             {"prompt", prompt},
             {"group", group},
             {"completion", shape.completion},
             {"update_seconds", seconds}});
    }
  }
  const Fit law = fit(points);
  print({{"part", "fit"},
         {"seconds_per_prompt_token", law.coefficients[0]},
         {"seconds_per_completion_token", law.coefficients[1]},
         {"seconds", law.coefficients[2]},
         {"worst_relative_error", law.worst}});
}

void compare_windows(const OnlineSettings& s, const Scratch& scratch) {
  const OnlineShape shape{s.prompt, s.completion, s.group};
  SftWork whole = our_work(s, scratch, shape, s.steps, false);
  SftWork cut = whole, apart = whole;
  cut.options["per_device_train_batch_size"] = s.group / 4;
  cut.options["gradient_accumulation_steps"] = 4;
  apart.options["share_prefix"] = false;
  std::vector<std::vector<Json>> runs(3);
  const std::vector<SftWork> works = {whole, cut, apart};
  interleave(works.size(), s.rounds, [&](size_t i) { runs[i].push_back(run_ours(works[i])); });
  const double one = part_of(runs[0], "update"), four = part_of(runs[1], "update"),
               alone = part_of(runs[2], "update");
  const auto p = static_cast<double>(s.prompt), r = static_cast<double>(s.completion),
             g = static_cast<double>(s.group);
  print({{"part", "window"},
         {"update_seconds", one},
         {"in_four_micro_batches", four},
         {"sharing_nothing", alone},
         {"times_fewer_tokens", g * (p + r) / (p + g * r)},
         {"times_faster", alone / one},
         {"kept_in_four", one / four}});
}

void compare_late_rewards(const OnlineSettings& s, const Scratch& scratch) {
  const OnlineShape shape{s.prompt, s.completion, s.group};
  SftWork at_once = our_work(s, scratch, shape, s.steps, true);
  at_once.options.erase("reward_funcs");
  at_once.late = 0;
  SftWork later = at_once;
  later.late = s.late;
  std::vector<std::vector<Json>> runs(2);
  interleave(2, s.rounds, [&](size_t i) { runs[i].push_back(run_ours(i == 0 ? at_once : later)); });
  const double soon = warm_median(runs[0], "seconds"), late = warm_median(runs[1], "seconds");
  print({{"part", "late"},
         {"late_seconds", s.late / 1e3},
         {"generate_seconds", part_of(runs[1], "generate")},
         {"step_seconds", soon},
         {"step_seconds_late", late},
         {"cost_seconds", late - soon},
         {"waited_seconds", part_of(runs[1], "reward")}});
}

}  // namespace trl::bench
