// One row of the table of methods (methods.def): the answers to every question of the kind "which trainer is
// this". It depends on nothing, so that the command can compile it for itself.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>

namespace trl::config {

// The form of a row of the data. text: one text or conversation; pairs: a prompt with a chosen and a rejected
// completion; whole_pairs: a chosen and a rejected text; unpaired: a completion with a label; prompts: a
// prompt alone, whose completions the run writes; conversations: messages, of which the last is the
// completion.
enum class RowForm : uint8_t { text, pairs, whole_pairs, unpaired, prompts, conversations };
enum class Head : uint8_t { none, language, score };

// A line of the command's help.
struct MethodFlag {
  const char *name = nullptr, *value = nullptr, *text = nullptr;  // no name: no line
};

struct MethodRow {
  const char* name = "";
  bool built = false;  // this version has it
  RowForm rows = RowForm::text;
  int32_t sequences = 1;  // that a row becomes
  // The loss_type under which each prompt also gets the completion of another row of its batch: the sequences
  // double, and rows may not change their places. Empty: none.
  const char* exchanging_loss = "";
  Head trains[2] = {Head::language};  // the heads of the models that it trains, the policy's first
  bool reference = false;             // the loss compares the model with a reference
  bool reference_with_beta = false;   // it does so if beta is not 0
  bool generates = false;             // a step writes completions
  bool generates_window = false;      // those of all its micro-batches at once
  bool episodes = false;              // a step makes several updates on its completions
  bool tempers = false;               // the loss divides logits by the temperature of the completions
  bool tells_lengths = true;          // records have lengths of completions, and the number of tokens
  bool tells_step_time = false;       // and the seconds of a step
  bool answers_of_rows = false;       // micro-batches may have the completions of the rows
  bool pad_ends = false;              // a completion that ends with padding has ended
  bool ends_of_model = false;  // the tokenizer's EOS does not end completions, unless it is the model's
  bool compares_distributions = false;  // the loss is of all logits, not of the tokens that were chosen
  bool smooths_labels = false;          // label_smoothing_factor changes the loss
  bool evaluates = true;                // it has a loss of evaluation rows
  bool bare_prompts = false;            // prompts of plain text get no special tokens
  bool pads_for_rewards = false;        // rewards get the ids of a completion with padding up to the longest
  int32_t loss_decimals = 0;            // that the logged loss has; 0: all
  const char* tag = "";                 // in the card of a saved model
  // the command: a line for its overview, a sentence, the help's line on rows, its own lines and examples
  const char *summary = "", *about = "", *columns = "";
  MethodFlag flags[3] = {};
  const char* examples[2] = {};

  bool scores() const { return trains[0] == Head::score; }
};

std::span<const MethodRow> methods();   // of this version; the first is the default
std::span<const MethodRow> trainers();  // these, and TRL's others; the bit of each is 1 << its place
const MethodRow* find_method(std::string_view name);  // among methods(); dashes are underscores; null: none

}  // namespace trl::config
