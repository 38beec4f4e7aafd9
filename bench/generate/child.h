// The work of a process that this program starts for a comparison.
#pragma once
#include "support/runs.h"

namespace trl::bench {

// work: model, form, file (a JSON object with prompts and new_tokens), threads; with `sequences` and `steps`
// it measures steps of decoding, else it completes all prompts. generate_peer.py does the same, and prints
// the same object.
Json run_work(const Json& work);

}  // namespace trl::bench
