// Writes the sample's checkpoint of one step into a root. Made tests/checkpoint/golden; run it
// again only for a new version of the format, and into a folder of that version's own.

#include <cstdlib>
#include <iostream>

#include "checkpoint/hdf5_store.h"
#include "sample.h"

int main(int count, char** arguments) {
  using namespace zero::checkpoint;
  if (count != 4) {
    std::cerr << "usage: " << arguments[0] << " ROOT STEP WORLD_SIZE\n";
    return 2;
  }
  const int world_size = std::atoi(arguments[3]);
  Hdf5StoreOptions options;
  options.block_bytes = 64;
  options.writer = "libzero golden";
  options.view = false;  // There was none in 1.0.
  options.new_attempt = [&] { return "000000000000000" + std::to_string(world_size); };
  const Sample sample(std::atoll(arguments[2]), world_size);
  save(*make_hdf5_store(on_disk(), arguments[1], options), sample);
}
