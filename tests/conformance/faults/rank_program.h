#pragma once

#include "tests/conformance/faults/thread_ranks.h"

namespace zero::fault_test {

/// The main() of a program that is one rank of a backend, for RankProcess. Its arguments: rank,
/// size, port of the store, timeout in milliseconds. It is told what to do on standard input, one
/// command a line, and answers each with one line: "ok" or the error; its first line is "joined".
/// Commands: reduce_scatter <elements> (opened by a barrier; checks the sums); stall <elements> (a
/// reduce_scatter that says "middle" at its first piece and then waits for a line); barrier; split
/// (makes a communicator of all ranks in reverse order, which the commands after it use); abort
/// <why>; shutdown; vanish (exits without a word).
int run_rank_program(int argc, char** argv, const JoinRank& join);

}  // namespace zero::fault_test
