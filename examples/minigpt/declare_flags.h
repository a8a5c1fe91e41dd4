#pragma once

#include "examples/minigpt/flags.h"

namespace CLI {
class App;
}

namespace minigpt {

/// Makes `app` know every flag: its name, its help, the values that it takes by itself. Parsing
/// fills `flags`, which must outlive `app`; of a repeated flag the last one wins.
void declare_flags(CLI::App& app, Flags& flags);

}  // namespace minigpt
