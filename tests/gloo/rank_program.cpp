// One rank as a process, obeying its standard input.

#include "tests/conformance/faults/rank_program.h"

#include "tests/gloo/world.h"

int main(int argc, char** argv) {
  return zero::fault_test::run_rank_program(argc, argv, zero::gloo_test::join);
}
