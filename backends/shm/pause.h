#pragma once

namespace zero::shm {

/// Between two looks at a word that another core is about to write.
inline void pause_core() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace zero::shm
