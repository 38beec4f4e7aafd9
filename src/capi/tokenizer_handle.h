// A tokenizer handle.
#pragma once
#include "capi/handle.h"
#include "run/tokenizer.h"
#include "trl/trl.h"

struct trl_tokenizer : trl::capi::Handle<trl::run::Tokenizer, trl::capi::Tag::tokenizer> {
  using Handle::Handle;
};
