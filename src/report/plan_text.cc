#include <fmt/format.h>

#include <cmath>

#include "base/text/quantity.h"
#include "report/chart.h"
#include "report/plan_report.h"
#include "report/planned_sets.h"

namespace trl::report {

std::string wrapped(const std::string& text, int64_t columns, const std::string& indent) {
  std::string out, line;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find(' ', begin), text.size());
    const std::string word = text.substr(begin, end - begin);
    if (!line.empty() && static_cast<int64_t>(line.size() + 1 + word.size()) > columns) {
      out += indent + line + "\n";
      line.clear();
    }
    line += (line.empty() ? "" : " ") + word;
    begin = end + 1;
  }
  return line.empty() ? out : out + indent + line + "\n";
}

namespace {

constexpr int64_t kColumns = 60;

// Returns a line of a table, below its name if the name is too long for the first column.
std::string named_line(const std::string& name, size_t width, const std::string& numbers) {
  if (name.size() <= width) return fmt::format("{:<{}}{}\n", name, width, numbers);
  return fmt::format("{}\n{:{}}{}\n", name, "", width, numbers);
}

std::string term_lines(const base::Json& plan, const PlanTerms& terms) {
  const auto line = [](const std::string& name, std::string_view at_peak, std::string_view most) {
    return named_line(name, 38, fmt::format("{:>11}{:>11}", at_peak, most));
  };
  std::string out = line("memory", "at the peak", "at most");
  for (const base::Json& term : plan.at("terms")) {
    const auto name = term.at("name").get<std::string>();
    out +=
        line(fmt::format("  {} {}", terms.letter(terms.index(name)), name),
             base::bytes_text(plan_number(term, "bytes")), base::bytes_text(plan_number(term, "most_bytes")));
  }
  return out + fmt::format("{:<38}{:>11}\n", "peak", base::bytes_text(plan_number(plan, "peak_bytes")));
}

// Draws the terms at the peak as a bar of their letters.
std::string letters_bar(const base::Json& plan, const PlanTerms& terms, double top, int64_t columns) {
  std::string bar;
  double sum = 0;
  for (const base::Json& term : plan.at("terms")) {
    sum += plan_number(term, "bytes");
    const auto end = static_cast<size_t>(std::llround(sum / top * static_cast<double>(columns)));
    if (end > bar.size()) bar.resize(end, terms.letter(terms.index(term.at("name").get<std::string>())));
  }
  return bar;
}

std::string run_time(const base::Json& plan) {
  const double seconds = plan_number(plan, "seconds");
  return seconds >= 0 ? base::duration_text(seconds) : "-";
}

std::string set_lines(const std::vector<PlannedSet>& sets, const PlanTerms& terms) {
  const auto numbers = [](std::string_view peak, std::string_view speed, std::string_view time,
                          std::string_view disk) {
    return fmt::format("{:>9}{:>9}{:>14}{:>10}", peak, speed, time, disk);
  };
  constexpr size_t kNames = 18;
  std::string out = named_line("option sets", kNames, numbers("peak", "tokens/s", "time", "disk"));
  const double top = highest_peak(sets);
  for (const PlannedSet& set : sets) {
    if (set.plan == nullptr) {
      out += wrapped(set.name, kColumns - 2, "  ") + wrapped("refused: " + set.refused, kColumns - 4, "    ");
      continue;
    }
    const base::Json& plan = *set.plan;
    const bool is_long = set.name.size() + 2 > kNames;
    if (is_long) out += wrapped(set.name, kColumns - 2, "  ");
    out += named_line(is_long ? "" : "  " + set.name, kNames,
                      numbers(base::bytes_text(plan_number(plan, "peak_bytes")),
                              base::rate_text(plan_number(plan, "tokens_per_second")), run_time(plan),
                              base::bytes_text(plan_number(plan.at("disk"), "needed_bytes"))));
    out += fmt::format("    {}\n", letters_bar(plan, terms, top, kColumns - 4));
  }
  return out;
}

// Returns "disk       300 B for the model; 5 kB free", a line for each text.
std::string labelled(std::string_view label, const std::vector<std::string>& texts) {
  constexpr int64_t kIndent = 11;
  std::string out;
  for (const std::string& text : texts)
    out += wrapped(text, kColumns - kIndent, std::string(static_cast<size_t>(kIndent), ' '));
  return out.replace(0, label.size(), label);
}

std::string time_lines(const base::Json& plan) {
  const auto count = [&](const char* key) { return static_cast<int64_t>(plan_number(plan, key)); };
  const std::string step =
      fmt::format("{} a step of {}, {} tokens/s", base::duration_text(plan_number(plan, "seconds_per_step")),
                  base::quantity(count("tokens_per_step"), "token"),
                  base::rate_text(plan_number(plan, "tokens_per_second")));
  if (plan_number(plan, "seconds") < 0)
    return labelled("time", {step, "of the run: known with max_steps or the rows"});
  return labelled("time", {fmt::format("{} for {}", base::duration_text(plan_number(plan, "seconds")),
                                       base::quantity(count("steps"), "step")),
                           step});
}

std::string with_free(std::string text, double free) {
  return free >= 0 ? text + fmt::format("; {} free", base::bytes_text(free)) : text;
}

std::string disk_lines(const base::Json& disk) {
  const double count = plan_number(disk, "checkpoints"), free = plan_number(disk, "free_bytes");
  std::string saved = fmt::format("{} for the model", base::bytes_text(plan_number(disk, "model_bytes")));
  if (count > 0) {
    saved += fmt::format(", {} for {}", base::bytes_text(count * plan_number(disk, "checkpoint_bytes")),
                         base::quantity(static_cast<int64_t>(count), "checkpoint"));
  }
  std::vector<std::string> lines = {std::move(saved)};
  const double lacking = plan_number(disk, "needed_bytes") - free;
  if (free >= 0)
    lines.push_back(
        base::bytes_text(free) + " free" +
        (lacking > 0 ? fmt::format(", {} too little: it is refused", base::bytes_text(lacking)) : ""));
  if (const double away = plan_number(disk, "offload_needed_bytes"); away >= 0)
    lines.push_back(with_free(base::bytes_text(away) + " for what leaves memory",
                              plan_number(disk, "offload_free_bytes")));
  if (const double states = plan_number(disk, "frozen_states_bytes"); states >= 0)
    lines.push_back(with_free(base::bytes_text(states) + " for the states of frozen layers",
                              plan_number(disk, "frozen_states_free_bytes")));
  return labelled("disk", lines);
}

std::string cache_line(const base::Json& plan) {
  const auto cache = plan.find("kv_cache");
  if (cache == plan.end()) return {};
  return labelled(
      "KV cache",
      {fmt::format("{} for {}, in generation only", base::bytes_text(plan_number(*cache, "bytes")),
                   base::quantity(static_cast<int64_t>(plan_number(*cache, "tokens")), "token"))});
}

}  // namespace

std::string plan_text(const base::Json& plan) {
  const std::vector<PlannedSet> sets = planned_sets(plan);
  const PlanTerms terms(sets);
  std::string out = term_lines(plan, terms);
  out += "\none step, from opening the model on, in the letters above\n";
  out += text_timeline(plan, terms, kColumns);
  if (sets.size() > 1) out += "\n" + set_lines(sets, terms);
  if (const auto way = plan.find("way"); way != plan.end())
    out += "\n" + wrapped("memory_budget: " + way->get<std::string>(), kColumns, "");
  return out + "\n" + time_lines(plan) + disk_lines(plan.at("disk")) + cache_line(plan);
}

}  // namespace trl::report
