// The option table: complete, sound, and the same as TRL's.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <regex>
#include <set>

#include "base/files/files.h"
#include "config/config.h"
#include "config/table/option_value.h"
#include "markdown_online.h"
#include "trl_fields.h"

namespace trl::config {
namespace {

TEST(OptionTable, HasEveryFieldOfTrlWithItsDefault) {
  std::map<std::string_view, int> counts;
  for (const test::Field& field : test::kTrlFields) {
    const Option* option = find_option(field.name);
    ASSERT_NE(option, nullptr) << field.name;
    EXPECT_EQ(option->name, field.name);
    EXPECT_EQ(option->section, field.section) << field.name;
    EXPECT_EQ(option->origin, "trl") << field.name;
    const bool words = option->type == OptionType::text && field.default_value != "null";
    EXPECT_EQ(words ? field.default_value : canonical_value(*option, field.name, field.default_value),
              option->default_value)
        << field.name;
    ++counts[field.section];
  }
  EXPECT_EQ(counts["SFTConfig"], 135);
  EXPECT_EQ(counts["ModelConfig"], 19);
  EXPECT_EQ(counts["ScriptArguments"], 6);
  EXPECT_EQ(counts["DatasetMixtureConfig"], 3);
}

TEST(OptionTable, TrlSectionsHaveNothingElse) {
  std::map<std::string_view, int> counts;
  for (const Option& option : options()) ++counts[option.section];
  EXPECT_EQ(counts["SFTConfig"], 135);
  EXPECT_EQ(counts["ModelConfig"], 19);
  EXPECT_EQ(counts["ScriptArguments"], 6);
  EXPECT_EQ(counts["DatasetMixtureConfig"], 3);
}

TEST(OptionTable, NamesAndAliasesAreUnique) {
  std::set<std::string_view> names;
  for (const Option& option : options()) {
    EXPECT_TRUE(names.insert(option.name).second) << option.name;
    for (const std::string_view alias : alias_list(option)) {
      EXPECT_TRUE(names.insert(alias).second) << alias;
      EXPECT_EQ(find_option(alias), &option) << alias;
    }
  }
}

TEST(OptionTable, DefaultsAreCanonicalLegalAndTaken) {
  for (const Option& option : options()) {
    const std::string value(option.default_value);
    EXPECT_EQ(canonical_value(option, option.name, value), value) << option.name;
    EXPECT_EQ(check_support(option, option.name, value), "") << option.name;
    EXPECT_EQ(option.default_value == "null" && !option.nullable, false) << option.name;
    EXPECT_TRUE(option.unsupported.empty() || option.warning.empty()) << option.name;
    EXPECT_FALSE(option.doc.empty()) << option.name;
    EXPECT_TRUE(option.doc.ends_with('.')) << option.name;
    EXPECT_FALSE(option.group.empty()) << option.name;
  }
}

TEST(OptionTable, NoOpsAreLegalAndTakenInSilence) {
  int checked = 0;
  for (const Option& option : options()) {
    if (option.type == OptionType::map) continue;
    for (const std::string_view word : split_words(option.no_ops, '|')) {
      Config config;
      EXPECT_NO_THROW(config.set(option.name, word)) << option.name << " " << word;
      EXPECT_TRUE(config.warnings().empty()) << option.name << " " << word;
      ++checked;
    }
  }
  EXPECT_GT(checked, 20);
}

TEST(OptionTable, TellsKeysThatWorkFromOthers) {
  for (const std::string_view name : {"learning_rate", "optim", "report_to", "dataset_revision"})
    EXPECT_TRUE(find_option(name)->works) << name;
  for (const std::string_view name : {"fsdp", "push_to_hub", "zero_stage", "do_train"})
    EXPECT_FALSE(find_option(name)->works) << name;
}

// Checks that a page has an entry for each of its keys that work, and the others in its appendix.
void check_page(const std::string& page, std::string_view begin, page::Page which, size_t most_bytes) {
  const size_t first = page.find(begin);
  size_t appendix = page.find("## Appendix");
  ASSERT_LT(first, page.size());
  ASSERT_EQ(appendix == page.npos, which == page::Page::serve);  // all keys there have an effect
  appendix = std::min(appendix, page.size());
  EXPECT_LE(page.size(), most_bytes);
  for (const Option& option : options()) {
    if (page::page_of(option) != which) continue;
    const size_t entry = page.find(fmt::format("\n- `{}`", option.name), first);
    EXPECT_EQ(entry < appendix, option.works) << option.name;
    const bool listed = std::regex_search(page.begin() + static_cast<std::ptrdiff_t>(appendix), page.end(),
                                          std::regex(fmt::format(" {}[ ,;]", option.name)));
    EXPECT_TRUE(option.works || listed) << option.name;
  }
}

TEST(OptionTable, ThePagesHaveEachKeyOnce) {
  check_page(page::configuration_markdown(), "## SFTConfig", page::Page::common, 65000);
  check_page(page::online_markdown(), "## GRPOConfig", page::Page::online, 30000);
  check_page(page::serve_markdown(), "## generate", page::Page::serve, 30000);
}

TEST(OptionTable, OldValuesMeanLegalValues) {
  for (const OldValue& old : old_values()) {
    const Option* option = find_option(old.name);
    ASSERT_NE(option, nullptr) << old.name;
    EXPECT_NO_THROW(canonical_value(*option, old.name, old.meaning)) << old.name;
  }
}

TEST(OptionTable, OwnKeysAreMarked) {
  for (const std::string_view name : {"eval_dataset_name",
                                      "dataset_columns",
                                      "method",
                                      "memory_budget",
                                      "ref_model_name_or_path",
                                      "ref_logprobs_cache_dir",
                                      "max_tokens_per_pass",
                                      "share_prefix",
                                      "share_prefix_window",
                                      "offload_dir",
                                      "recompute",
                                      "activation_offloading_min_bytes",
                                      "activation_offloading_zstd",
                                      "on_nonfinite",
                                      "optimizer_in_backward",
                                      "gradient_dtype",
                                      "clip_by_previous_norm",
                                      "stochastic_rounding",
                                      "generation_dtype",
                                      "record_rollouts",
                                      "tools",
                                      "environments",
                                      "tool_call_parser",
                                      "value_model_name_or_path",
                                      "fused_kernels",
                                      "generation_exact",
                                      "profile_parts",
                                      "runtime.threads",
                                      "runtime.host_memory_limit",
                                      "generate.max_new_tokens",
                                      "generate.system",
                                      "generate.num_return_sequences",
                                      "save.kind",
                                      "sample_prompts",
                                      "sample_steps",
                                      "sample_max_new_tokens",
                                      "save_format",
                                      "save_gguf_type",
                                      "convert.type"}) {
    ASSERT_NE(find_option(name), nullptr) << name;
    EXPECT_EQ(find_option(name)->origin, "ours") << name;
  }
}

TEST(OptionTable, DescribesItself) {
  EXPECT_EQ(accepted_text(*find_option("learning_rate")), "a number >= 0");
  EXPECT_EQ(accepted_text(*find_option("adam_beta1")), "a number in [0, 1)");
  EXPECT_EQ(accepted_text(*find_option("max_length")), "an integer > 0, or null");
  EXPECT_EQ(accepted_text(*find_option("pad_to_multiple_of")), "auto or an integer in [1, 1048576], or null");
  EXPECT_EQ(accepted_text(*find_option("truncation_mode")), "one of keep_end, keep_start");
  EXPECT_EQ(accepted_text(*find_option("bf16")), "true or false, or null");
  EXPECT_EQ(accepted_text(*find_option("deepspeed")), "a mapping or the name of a file, or null");
  EXPECT_EQ(type_name(OptionType::choice), "choice");
  EXPECT_EQ(trainer_names(kSft | kOnlineDpo, ", "), "sft, online_dpo");
  EXPECT_EQ(trainer_names(0, ", "), "");
  const std::vector<std::string_view> expected = {"auto", "on", "off"};
  EXPECT_EQ(choices(*find_option("fused_kernels")), expected);
  EXPECT_TRUE(choices(*find_option("seed")).empty());
  EXPECT_EQ(accepted_text(*find_option("beta"), "dpo"), "a number > 0");
  EXPECT_EQ(accepted_text(*find_option("beta"), "gkd"), "a number in [0, 1]");
  EXPECT_EQ(accepted_text(*find_option("beta"), "online_dpo"), "one or a list of numbers > 0");
  EXPECT_EQ(accepted_text(*find_option("packing"), "gkd"), "false");
  EXPECT_EQ(accepted_text(*find_option("pad_to_multiple_of"), "gkd"), "auto, or null");
  EXPECT_EQ(accepted_text(*find_option("dataset_kwargs"), "gkd"), "null");
}

TEST(OptionTable, TrainersHaveTheirOwnDefaultsAndChoices) {
  const Option &rate = *find_option("learning_rate"), &loss = *find_option("loss_type");
  EXPECT_EQ(default_of(rate, "sft"), "2e-05");
  EXPECT_EQ(default_of(rate, "kto"), "1e-06");
  EXPECT_EQ(default_of(rate, "reward"), "1e-04");
  EXPECT_EQ(default_of(rate, "no such trainer"), "2e-05");
  EXPECT_EQ(accepted_of(rate, "kto"), ">= 0");
  EXPECT_EQ(accepted_of(loss, "kto"), "kto|apo_zero_unpaired");
  EXPECT_EQ(accepted_text(loss, "sft"), "one of nll, dft, chunked_nll");
  EXPECT_EQ(accepted_text(loss, "dpo").substr(0, 33), "one or a list of sigmoid, hinge, ");
  EXPECT_EQ(doc_of(loss, "sft"), loss.doc);
  EXPECT_NE(doc_of(loss, "kto"), loss.doc);
  for (const std::string_view name : split_words(accepted_of(loss, "dpo"), '|'))
    EXPECT_NE(doc_of(loss, "dpo").find(std::string(name)), std::string_view::npos) << name;
  EXPECT_TRUE(is_of(loss, "dpo"));
  EXPECT_FALSE(is_of(loss, "ppo"));
  EXPECT_EQ(default_of(loss, "grpo"), "dapo");
  std::map<std::string_view, uint32_t> seen;
  for (const TrainerValues& values : trainer_values()) {
    const Option* const option = find_option(values.name);
    ASSERT_NE(option, nullptr) << values.name;
    EXPECT_EQ(seen[values.name] & values.trainers, 0u) << values.name << " has two rows for a trainer";
    seen[values.name] |= values.trainers;
    EXPECT_EQ(values.trainers & ~option->trainers, 0u) << values.name;
    const std::string text(values.default_value);
    EXPECT_EQ(canonical_value(*option, values.name, text), text);
  }
}

void check_current(const std::string& name, const std::string& wanted) {
  const std::string page = TRL_SOURCE_DIR "/include/" + name, fresh = TRL_BINARY_DIR "/" + name;
  const bool current = base::file_exists(page) && base::read_file(page) == wanted;
  if (!current) base::write_file(fresh, wanted);
  EXPECT_TRUE(current) << "the option table has changed: cp " << fresh << " " << page;
}

TEST(OptionTable, ConfigurationPagesAreCurrent) {
  check_current("CONFIGURATION.md", page::configuration_markdown());
  check_current("CONFIGURATION_ONLINE.md", page::online_markdown());
  check_current("CONFIGURATION_SERVE.md", page::serve_markdown());
}

}  // namespace
}  // namespace trl::config
