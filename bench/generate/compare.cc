#include "generate/compare.h"

#include <fstream>
#include <set>

#include "support/abi.h"
#include "support/runs.h"

namespace trl::bench {

namespace {

constexpr int64_t kBatch = 8;

struct Side {
  std::string python;  // of libtrl: none
  Json work;
  std::vector<Json> runs = {};
};

std::string file_of(const Scratch& scratch, const Workload& work) {
  const std::string path = scratch.file("prompts.json");
  std::ofstream(path) << Json{{"prompts", work.prompts}, {"new_tokens", work.new_tokens}};
  return path;
}

void run_sides(std::vector<Side>& sides, int rounds) {
  interleave(sides.size(), rounds, [&](size_t i) {
    Side& side = sides[i];
    if (side.python.empty())
      side.runs.push_back(run_json({"/proc/self/exe", kChildFlag, side.work.dump()}));
    else
      side.runs.push_back(run_json({side.python, TRL_GENERATE_PEER, side.work.dump()}));
  });
}

// How many texts are equal, or how many of their first ids: fewer if sums are rounded otherwise near a tie.
void add_agreement(const Json& ours, const Json& theirs, Json& line) {
  int64_t equal = 0;
  std::vector<double> first;
  for (size_t i = 0; i < ours.size(); ++i) {
    const size_t length = std::min(ours[i].size(), theirs[i].size());
    size_t same = 0;
    while (same < length && ours[i][same] == theirs[i][same]) ++same;
    equal += same == length;
    if (same < length) first.push_back(static_cast<double>(same));
  }
  line["texts"] = ours.size();
  line["equal_texts"] = equal;
  if (first.empty()) return;
  line["first_difference"] = *std::min_element(first.begin(), first.end());
  line["median_difference"] = median(first);
}

// Returns our side that computes in the type of another, or else our first.
const Side& ours_beside(const std::vector<Side>& sides, const Side& other) {
  const auto same = [&](const Side& side) {
    return side.python.empty() && side.work.at("form") == other.work.at("form");
  };
  const auto found = std::ranges::find_if(sides, same);
  return found != sides.end() ? *found : sides[0];
}

void report_texts(const char* bench, const std::vector<Side>& sides) {
  for (const Side& side : sides) {
    Json line = {{"bench", bench}, {"by", side.runs[0].at("by")}, {"weights", side.work.at("form")}};
    if (!side.python.empty()) {
      line["batch"] = side.work.at("batch");
      add_agreement(ours_beside(sides, side).runs[0].at("texts"), side.runs[0].at("texts"), line);
    }
    for (const char* key :
         {"tokens_per_second", "decoded_per_second", "seconds_to_first", "peak_resident_bytes"}) {
      if (side.runs[0].contains(key)) line[key] = median_of(side.runs, key);
    }
    line["runs"] = side.runs.size();
    for (const auto& [key, name] :
         {std::pair{"tokens_per_second", "first_to_this"}, {"decoded_per_second", "first_to_this_decoded"}}) {
      if (&side != &sides[0] && side.runs[0].contains(key))
        line[name] = median_of(sides[0].runs, key) / median_of(side.runs, key);
    }
    print(line);
  }
}

std::string converted(const std::string& model, const Scratch& scratch, const char* type) {
  const std::string file = scratch.file(std::string(type) + ".gguf");
  trl_config* const config = config_of({{"convert.type", type}});
  TRL_CHECK(trl_model_convert(nullptr, model.c_str(), file.c_str(), config, &error));
  trl_config_destroy(config);
  return file;
}

double rate(const std::vector<Json>& runs, size_t at) {
  std::vector<double> rates;
  for (const Json& run : runs) rates.push_back(run.at("steps")[at].at("tokens_per_second"));
  return median(rates);
}

}  // namespace

void compare_batch(const GenerateSettings& s, const Scratch& scratch, Prompts& prompts) {
  const std::string file = file_of(scratch, equal_texts(prompts, kBatch, s.context, s.new_tokens));
  Json work = {{"model", s.model}, {"file", file}, {"threads", s.threads}, {"batch", kBatch}};
  std::vector<Side> sides;
  const auto add = [&](const std::string& form, const std::string& python) {
    work["form"] = form;
    sides.push_back({python, work});
  };
  for (const std::string& form : s.forms) add(form, "");
  for (const std::string& form : s.peer_forms) add(form, s.peer);
  run_sides(sides, s.rounds);
  report_texts("batch", sides);
}

void compare_texts(const GenerateSettings& s, const Scratch& scratch, Prompts& prompts) {
  const std::string file = file_of(scratch, mixed_texts(prompts, s.texts));
  Json work = {{"model", s.model}, {"file", file}, {"threads", s.threads}};
  std::vector<Side> sides;
  std::set<std::string> ours = {"bf16"};
  ours.insert(s.peer_forms.begin(), s.peer_forms.end());
  for (const std::string& form : ours) {
    work["form"] = form;
    sides.push_back({"", work});
  }
  for (const std::string& form : s.peer_forms) {
    for (const int64_t batch : s.batches) {
      work["form"] = form;
      work["batch"] = batch;
      sides.push_back({s.peer, work});
    }
  }
  run_sides(sides, s.rounds);
  report_texts("texts", sides);
}

void compare_llama(const GenerateSettings& s, const Scratch& scratch, Prompts& prompts) {
  const int64_t most = s.sequences.back(),
                new_tokens = (s.steps + 2) * (std::ssize(s.sequences) + 1) + 2 * most;
  const std::string file = file_of(scratch, same_texts(prompts, most, s.context, new_tokens));
  for (const auto& [form, type] : {std::pair{"bf16", "f16"}, {"int8", "q8_0"}, {"int4", "q4_0"}}) {
    if (std::find(s.forms.begin(), s.forms.end(), form) == s.forms.end()) continue;
    Json work = {{"model", s.model},         {"file", file}, {"threads", s.threads},
                 {"sequences", s.sequences}, {"form", form}, {"steps", s.steps}};
    std::vector<Side> sides = {{"", work}};
    work["gguf"] = converted(s.model, scratch, type);
    sides.push_back({s.llama, work});
    run_sides(sides, s.rounds);
    for (size_t i = 0; i < s.sequences.size(); ++i) {
      Json line = {{"bench", "llama"}, {"by", sides[1].runs[0].at("by")}, {"weights", form}, {"type", type}};
      const Json& ours = sides[0].runs[0].at("steps")[i];  // the most sequences first
      line["sequences"] = ours.at("sequences");
      if (i == 0) add_agreement(sides[0].runs[0].at("texts"), sides[1].runs[0].at("texts"), line);
      line["context"] = ours.at("context");
      line["tokens_per_second"] = rate(sides[0].runs, i);
      line["llama_tokens_per_second"] = rate(sides[1].runs, i);
      line["ratio"] = rate(sides[0].runs, i) / rate(sides[1].runs, i);
      print(line);
    }
    std::filesystem::remove(work.at("gguf").get<std::string>());
  }
}

}  // namespace trl::bench
