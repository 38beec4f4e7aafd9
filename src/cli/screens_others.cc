#include "cli/screens.h"

namespace trl::cli {

void add_other_screens(Screens& screens) {
  screens["download"] = {
      "NAME [--KEY VALUE ...]",
      {},
      {{"revision", "NAME", "a branch, a tag or a commit [main]"},
       {"repo_type", "WORD", "model or dataset [model]"},
       {"hub", "off", "no network: what the cache holds is looked up alone"},
       kQuiet},
      {"trl download Qwen/Qwen2.5-0.5B", "trl download trl-lib/Capybara --repo_type dataset --revision main",
       "trl download https://huggingface.co/owner/name/blob/main/file.gguf"}};
  screens["options"] = {"[TRAINER | KEY | WORD | --schema [TRAINER]]",
                        {},
                        {},
                        {"trl options sft", "trl options learning_rate", "trl options lora",
                         "trl options --schema dpo >dpo.json"}};
  screens["env"] = {"", {}, {}, {"trl env", "trl env >report.json"}};
  screens["completion"] = {
      "bash | zsh | fish",
      {},
      {},
      {"source <(trl completion bash)", "trl completion fish >~/.config/fish/completions/trl.fish"}};
  screens["man"] = {"[COMMAND]", {}, {}, {"trl man sft | man -l -", "trl man >trl.1"}};
  screens["help"] = {"[COMMAND]", {}, {}, {"trl help", "trl help sft"}};
  screens["version"] = {"", {}, {}, {"trl version", "trl --version"}};
}

}  // namespace trl::cli
