#include "text/tokenizer/settings.h"

#include <fmt/format.h>

#include "base/error.h"
#include "text/tokenizer/steps.h"

namespace trl::text {

namespace {
using base::Json;
constexpr const char* kWordPiecePrefix = "##";

Json byte_level_steps(const ClassRow& row, bool space) {
  Json steps = Json::array();
  if (row.split) steps.push_back(isolate(row.split));
  if (row.digits) steps.push_back(digits());
  steps.push_back(byte_level(!row.split, space));
  return steps.size() == 1 ? steps[0] : pre_tokenizers(std::move(steps));
}

std::string type_of(const Json& step) {
  const auto type = step.is_object() ? step.find("type") : step.end();
  return type != step.end() && type->is_string() ? type->get<std::string>() : std::string();
}

Json bert_normalizer(const Settings::Cleaning& cleaning) {
  return {{"type", "BertNormalizer"},
          {"clean_text", true},
          {"handle_chinese_chars", cleaning.ideographs},
          {"strip_accents", cleaning.strip_accents ? Json(*cleaning.strip_accents) : Json(nullptr)},
          {"lowercase", cleaning.lowercase}};
}

// The only normalizer of a file that a Unigram class keeps.
Json find_precompiled(const Json& normalizer) {
  const Json steps =
      type_of(normalizer) == "Sequence" ? part_of(normalizer, "normalizers") : Json::array({normalizer});
  for (const Json& step : steps)
    if (type_of(step) == "Precompiled") return step;
  return nullptr;
}

void set_steps(Json& tokenizer, const ClassRow& row, const Settings& settings) {
  const Json before = part_of(tokenizer, "normalizer");
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
  } else if (row.shape == Shape::bert) {
    normalizer = bert_normalizer(settings.cleaning);
    tokenizer["pre_tokenizer"] = {{"type", "BertPreTokenizer"}};
    tokenizer["decoder"] = {{"type", "WordPiece"}, {"prefix", kWordPiecePrefix}, {"cleanup", true}};
  } else if (row.shape == Shape::unigram) {
    const char* scheme = row.sentinels || settings.add_prefix_space.value_or(true) ? "always" : "never";
    normalizer = find_precompiled(before);
    tokenizer["decoder"] = metaspace(scheme, true);
    tokenizer["pre_tokenizer"] =
        pre_tokenizers(Json::array({{{"type", "WhitespaceSplit"}}, tokenizer["decoder"]}));
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
  if (row.model == "Unigram") {
    model["unk_id"] = row.unknown_id;
    model["byte_fallback"] = false;
    return;
  }
  if (row.model == "WordPiece") {
    if (settings.special.unk) model["unk_token"] = *settings.special.unk;
    model["continuing_subword_prefix"] = kWordPiecePrefix;
    model["max_input_chars_per_word"] = 100;
    return;
  }
  const bool marks = row.shape == Shape::metaspace || row.shape == Shape::gemma;
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

std::string differences(const Json& before, const Json& after, const ClassRow& row) {
  std::string text;
  const auto compare = [&](const char* key, const Sorted& file, const Sorted& own) {
    if (file != own)
      text += fmt::format("{}{} is {} for {}", text.empty() ? "" : ", ", key, own.dump(), file.dump());
  };
  compare("normalizer", bare_step(part_of(before, "normalizer")), bare_step(part_of(after, "normalizer")));
  const Sorted words = bare_step(part_of(before, "pre_tokenizer"));
  // No space is left for Gemma's own to split at.
  if (row.shape != Shape::gemma || !words.is_null())
    compare("pre_tokenizer", words, bare_step(part_of(after, "pre_tokenizer")));
  if (part_of(before, "ignore_merges") == true) compare("ignore_merges", true, false);
  const Json around = part_of(before, "post_processor");
  if (row.surround == Surround::nothing && around.dump().find("SpecialToken") != std::string::npos)
    compare("post_processor", around, nullptr);
  return text;
}
}  // namespace

nlohmann::json bare_step(const Json& step) {
  for (const char* key : {"pretokenizers", "normalizers"}) {
    if (!step.is_object() || !step.contains(key) || !step[key].is_array()) continue;
    Sorted all = Sorted::array();
    for (const Json& item : step[key]) {
      Sorted one = bare_step(item);
      if (!one.is_array()) one = one.is_null() ? Sorted::array() : Sorted::array({one});
      all.insert(all.end(), one.begin(), one.end());
    }
    return all.empty() ? Sorted() : all.size() == 1 ? all[0] : all;
  }
  Sorted out = step;
  if (!out.is_object()) return out;
  const std::pair<const char*, Sorted> defaults[] = {{"add_prefix_space", type_of(step) == "Metaspace"},
                                                     {"prepend_scheme", "always"},
                                                     {"use_regex", true},
                                                     {"split", true},
                                                     {"invert", false},
                                                     {"individual_digits", false}};
  for (const char* key : {"trim_offsets", "str_rep", "precompiled_charsmap"}) out.erase(key);
  for (const auto& [key, value] : defaults)
    if (out.contains(key) && out[key] == value) out.erase(key);
  return out;
}

std::string rebuild(TokenizerJson& json, const ClassRow& row, const Settings& settings,
                    const std::string& path) {
  Json& tokenizer = json.rest;
  const auto model = tokenizer.find("model");
  if (model == tokenizer.end() || !model->is_object()) return {};  // refused where the model is read
  const std::string type = model->contains("type") ? type_of(*model) : model_type(json);
  if (type != row.model)
    fail(Status::unsupported, "{}.model: the model '{}', of which transformers makes a {} ({}), is not read",
         path, type, row.name, row.model);
  Json before = {{"normalizer", part_of(tokenizer, "normalizer")},
                 {"pre_tokenizer", part_of(tokenizer, "pre_tokenizer")},
                 {"post_processor", part_of(tokenizer, "post_processor")},
                 {"ignore_merges", part_of(*model, "ignore_merges")}};
  set_model(*model, row, settings);
  set_steps(tokenizer, row, settings);
  if (settings.lists_added) tokenizer["added_tokens"] = Json::array();
  return differences(before, tokenizer, row);
}

}  // namespace trl::text
