#include "cli/screens.h"

namespace trl::cli {

namespace {

Screens made() {
  Screens screens;
  add_run_screens(screens);
  add_model_screens(screens);
  add_row_screens(screens);
  add_other_screens(screens);
  return screens;
}

}  // namespace

const Screen& screen_of(const std::string& command) {
  static const Screens kScreens = made();
  static const Screen kNone;
  const auto found = kScreens.find(command);
  return found == kScreens.end() ? kNone : found->second;
}

}  // namespace trl::cli
