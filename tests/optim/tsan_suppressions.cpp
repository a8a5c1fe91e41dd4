// LibTorch and its OpenMP come without instrumentation: ThreadSanitizer does not see the reference
// counts and barriers by which they hand memory from thread to thread. What libzero's own code
// touches stays under watch.

extern "C" const char* __tsan_default_suppressions();

extern "C" const char* __tsan_default_suppressions() {
  return "called_from_lib:libc10.so\n"
         "called_from_lib:libtorch_cpu.so\n"
         "called_from_lib:libgomp.so\n";
}
