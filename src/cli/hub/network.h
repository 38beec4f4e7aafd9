// The functions that need the network. A build without libcurl (TRL_HUB=OFF) has them too, but they refuse.
#pragma once
#include "cli/hub/api.h"
#include "cli/hub/download.h"
