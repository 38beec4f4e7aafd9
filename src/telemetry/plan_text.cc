#include <fmt/format.h>

#include <cmath>

#include "telemetry/chart.h"
#include "telemetry/plan_report.h"
#include "telemetry/planned_sets.h"

namespace trl::telemetry {

std::string bytes_text(double bytes) {
  constexpr std::string_view kUnits[] = {"B", "kB", "MB", "GB", "TB", "PB"};
  size_t unit = 0;
  while (std::abs(bytes) >= 999.5 && unit + 1 < std::size(kUnits)) {
    bytes /= 1000;
    ++unit;
  }
  return fmt::format("{} {}", short_number(bytes, 3), kUnits[unit]);
}

std::string duration_text(double seconds) {
  if (!(seconds >= 0) || seconds > 9e15) return "?";
  if (seconds < 60) return fmt::format("{} s", short_number(seconds, 2));
  const auto minutes = static_cast<int64_t>(std::llround(seconds / 60));
  if (minutes < 60) return fmt::format("{} min", minutes);
  return fmt::format("{} h {:02} min", minutes / 60, minutes % 60);
}

std::string rate_text(double rate) {
  return rate < 999.5 ? short_number(rate, 3) : std::to_string(std::llround(rate));
}

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

constexpr int64_t kColumns = 80;

std::string term_lines(const base::Json& plan, const PlanTerms& terms) {
  std::string out = fmt::format("{:<54} {:>12} {:>12}\n", "memory", "at the peak", "at most");
  for (const base::Json& term : plan.at("terms")) {
    const auto name = term.at("name").get<std::string>();
    out += fmt::format("  {} {:<50} {:>12} {:>12}\n", terms.letter(terms.index(name)), name,
                       bytes_text(plan_number(term, "bytes")), bytes_text(plan_number(term, "most_bytes")));
  }
  return out + fmt::format("{:<54} {:>12}\n", "peak", bytes_text(plan_number(plan, "peak_bytes")));
}

// What the terms take at the peak, as a bar of their letters.
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
  return seconds >= 0 ? duration_text(seconds) : "-";
}

std::string set_lines(const std::vector<PlannedSet>& sets, const PlanTerms& terms) {
  std::string out =
      fmt::format("{:<36} {:>10} {:>9} {:>11} {:>10}\n", "option sets", "peak", "tokens/s", "time", "disk");
  const double top = highest_peak(sets);
  for (const PlannedSet& set : sets) {
    if (set.plan == nullptr) {
      out += wrapped(set.name, kColumns - 2, "  ") + wrapped("refused: " + set.refused, kColumns - 4, "    ");
      continue;
    }
    std::string name = set.name;
    if (name.size() > 34) {
      out += wrapped(name, kColumns - 2, "  ");
      name.clear();
    }
    out += fmt::format("  {:<34} {:>10} {:>9} {:>11} {:>10}\n", name,
                       bytes_text(plan_number(*set.plan, "peak_bytes")),
                       rate_text(plan_number(*set.plan, "tokens_per_second")), run_time(*set.plan),
                       bytes_text(plan_number(set.plan->at("disk"), "needed_bytes")));
    out += fmt::format("    {}\n", letters_bar(*set.plan, terms, top, kColumns - 4));
  }
  return out;
}

std::string time_lines(const base::Json& plan) {
  const std::string step =
      fmt::format("{} a step of {} tokens, {} tokens/s", duration_text(plan_number(plan, "seconds_per_step")),
                  short_number(plan_number(plan, "tokens_per_step"), 12),
                  rate_text(plan_number(plan, "tokens_per_second")));
  if (plan_number(plan, "seconds") < 0)
    return fmt::format("time       {}\n           of the run: known with max_steps, or with the rows\n",
                       step);
  return fmt::format("time       {} for {} steps\n           {}\n",
                     duration_text(plan_number(plan, "seconds")),
                     short_number(plan_number(plan, "steps"), 12), step);
}

std::string disk_lines(const base::Json& disk) {
  const double count = plan_number(disk, "checkpoints"), free = plan_number(disk, "free_bytes");
  std::string out = fmt::format("disk       {} for the model", bytes_text(plan_number(disk, "model_bytes")));
  if (count > 0) {
    out += fmt::format(", {} for {} checkpoint{}", bytes_text(count * plan_number(disk, "checkpoint_bytes")),
                       short_number(count, 12), count == 1 ? "" : "s");
  }
  if (free >= 0) out += fmt::format("; {} free", bytes_text(free));
  const double lacking = plan_number(disk, "needed_bytes") - free;
  if (free >= 0 && lacking > 0)
    out += fmt::format(": {} too little, such a run is refused", bytes_text(lacking));
  const double away = plan_number(disk, "offload_needed_bytes"),
               room = plan_number(disk, "offload_free_bytes");
  if (away >= 0) out += fmt::format("\n           {} for what leaves memory", bytes_text(away));
  if (away >= 0 && room >= 0) out += fmt::format("; {} free", bytes_text(room));
  const double states = plan_number(disk, "frozen_states_bytes"),
               left = plan_number(disk, "frozen_states_free_bytes");
  if (states >= 0) out += fmt::format("\n           {} for the states of frozen layers", bytes_text(states));
  if (states >= 0 && left >= 0) out += fmt::format("; {} free", bytes_text(left));
  return out + "\n";
}

std::string cache_line(const base::Json& plan) {
  const auto cache = plan.find("kv_cache");
  if (cache == plan.end()) return {};
  return fmt::format("KV cache   {} for {} tokens, in generation; none in training\n",
                     bytes_text(plan_number(*cache, "bytes")),
                     short_number(plan_number(*cache, "tokens"), 12));
}

}  // namespace

std::string plan_text(const base::Json& plan) {
  const std::vector<PlannedSet> sets = planned_sets(plan);
  const PlanTerms terms(sets);
  std::string out = term_lines(plan, terms);
  out += "\none step, from opening the model on; the letters are those of the terms above\n";
  out += text_timeline(plan, terms, kColumns);
  if (sets.size() > 1) out += "\n" + set_lines(sets, terms);
  if (const auto way = plan.find("way"); way != plan.end())
    out += "\n" + wrapped("memory_budget: " + way->get<std::string>(), kColumns, "");
  return out + "\n" + time_lines(plan) + disk_lines(plan.at("disk")) + cache_line(plan);
}

}  // namespace trl::telemetry
