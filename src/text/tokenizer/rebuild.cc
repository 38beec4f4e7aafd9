#include "text/tokenizer/rebuild.h"

#include <fmt/format.h>

#include <utility>

#include "text/tokenizer/steps.h"

namespace trl::text {

namespace {
using base::Json;

Json byte_level_steps(const ClassRow& row, bool space) {
  Json steps = Json::array();
  if (row.split) steps.push_back(isolate(row.split));
  if (row.digits) steps.push_back(digits());
  steps.push_back(byte_level(!row.split, space));
  return steps.size() == 1 ? steps[0] : pre_tokenizers(std::move(steps));
}

void set_steps(Json& tokenizer, const ClassRow& row, const Settings& settings) {
  Json& normalizer = tokenizer["normalizer"] = nullptr;
  if (row.shape == Shape::byte_level) {
    if (row.nfc) normalizer = {{"type", "NFC"}};
    tokenizer["pre_tokenizer"] = byte_level_steps(row, settings.add_prefix_space.value_or(false));
    tokenizer["decoder"] = byte_level(true);
  } else if (row.shape == Shape::metaspace) {
    const bool space = settings.add_prefix_space.value_or(true);
    const char* scheme = settings.legacy && !row.infilling ? "always" : "first";
    tokenizer["pre_tokenizer"] = metaspace(space ? scheme : "never");
    tokenizer["decoder"] = mark_decoder(space || row.infilling);
  } else {
    normalizer = replace(" ", kSpaceMark);
    tokenizer["pre_tokenizer"] = {{"type", "Split"},
                                  {"pattern", {{"String", " "}}},
                                  {"behavior", "MergedWithPrevious"},
                                  {"invert", false}};
    tokenizer["decoder"] = mark_decoder(false);
  }
}

void set_model(Json& model, const ClassRow& row, const Settings& settings) {
  const bool marks = row.shape != Shape::byte_level;
  model["dropout"] = nullptr;
  model["unk_token"] = nullptr;
  if (row.unknown_in_model && settings.special.unk) model["unk_token"] = *settings.special.unk;
  model["continuing_subword_prefix"] = nullptr;
  model["end_of_word_suffix"] = nullptr;
  model["fuse_unk"] = marks;
  model["byte_fallback"] = marks;
  model["ignore_merges"] = false;
}

using Sorted = nlohmann::json;  // compares without regard to the order of keys

std::string type_of(const Json& step) {
  const auto type = step.is_object() ? step.find("type") : step.end();
  return type != step.end() && type->is_string() ? type->get<std::string>() : std::string();
}

// Without what says nothing: defaults, lists of one, how offsets are trimmed.
Sorted bare(const Json& step) {
  for (const char* key : {"pretokenizers", "normalizers"}) {
    if (!step.is_object() || !step.contains(key) || !step[key].is_array()) continue;
    Sorted all = Sorted::array();
    for (const Json& item : step[key]) {
      Sorted one = bare(item);
      if (!one.is_array()) one = one.is_null() ? Sorted::array() : Sorted::array({one});
      all.insert(all.end(), one.begin(), one.end());
    }
    return all.empty() ? Sorted() : all.size() == 1 ? all[0] : all;
  }
  Sorted out = step;
  if (!out.is_object()) return out;
  const std::pair<const char*, bool> defaults[] = {{"add_prefix_space", type_of(step) == "Metaspace"},
                                                   {"use_regex", true},
                                                   {"split", true},
                                                   {"invert", false},
                                                   {"individual_digits", false}};
  out.erase("trim_offsets");
  for (const auto& [key, value] : defaults) {
    if (out.contains(key) && out[key] == value) out.erase(key);
  }
  return out;
}

Json at(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found == object.end() ? Json(nullptr) : *found;
}

std::string differences(const Json& before, const Json& after, const ClassRow& row) {
  std::string text;
  const auto compare = [&](const char* key, const Sorted& file, const Sorted& own) {
    if (file != own)
      text += fmt::format("{}{} is {} for {}", text.empty() ? "" : ", ", key, own.dump(), file.dump());
  };
  compare("normalizer", bare(at(before, "normalizer")), bare(at(after, "normalizer")));
  const Sorted words = bare(at(before, "pre_tokenizer"));
  // No space is left for Gemma's own to split at.
  if (row.shape != Shape::gemma || !words.is_null())
    compare("pre_tokenizer", words, bare(at(after, "pre_tokenizer")));
  if (at(before, "ignore_merges") == true) compare("ignore_merges", true, false);
  const Json around = at(before, "post_processor");
  if (row.surround == Surround::nothing && around.dump().find("SpecialToken") != std::string::npos)
    compare("post_processor", around, nullptr);
  return text;
}
}  // namespace

std::string rebuild(Json& tokenizer, const ClassRow& row, const Settings& settings) {
  const auto model = tokenizer.find("model");
  if (model == tokenizer.end() || !model->is_object() ||
      (model->contains("type") && type_of(*model) != "BPE"))
    return {};  // refused where the model is read
  Json before = {{"normalizer", at(tokenizer, "normalizer")},
                 {"pre_tokenizer", at(tokenizer, "pre_tokenizer")},
                 {"post_processor", at(tokenizer, "post_processor")},
                 {"ignore_merges", at(*model, "ignore_merges")}};
  set_model(*model, row, settings);
  set_steps(tokenizer, row, settings);
  if (settings.lists_added) tokenizer["added_tokens"] = Json::array();
  return differences(before, tokenizer, row);
}

}  // namespace trl::text
