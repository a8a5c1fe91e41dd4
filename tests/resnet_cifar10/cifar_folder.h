#pragma once

#include <cstdint>
#include <fstream>
#include <string>

#include "tests/temporary_folder.h"

namespace resnet {

/// CIFAR-10's file format with images of the test's own: image i has label i mod 10, and its bytes
/// grow by 1 from left to right, by 3 from row to row and by 7 from image to image.
inline void write_images(const std::string& path, int images) {
  std::ofstream file(path, std::ios::binary);
  for (int i = 0; i < images; ++i) {
    file.put(static_cast<char>(i % 10));
    for (int byte = 0; byte < 3 * 32 * 32; ++byte)
      file.put(static_cast<char>(7 * i + byte % 32 + 3 * (byte / 32 % 32)));
  }
}

}  // namespace resnet
