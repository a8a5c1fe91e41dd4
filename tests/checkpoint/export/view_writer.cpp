// Writes checkpoints with views into a new folder, for readers in other languages: the sample for
// several numbers of ranks (the step is the number of ranks).

#include <filesystem>
#include <iostream>

#include "checkpoint/hdf5_store.h"
#include "sample.h"

int main(int count, char** arguments) {
  using namespace zero::checkpoint;
  if (count != 2) {
    std::cerr << "usage: " << arguments[0] << " NEW_FOLDER\n";
    return 2;
  }
  for (const int world_size : {1, 2, 3, 5, 8}) {
    save(*make_hdf5_store(on_disk(), arguments[1]), world_size, world_size);
  }
}
