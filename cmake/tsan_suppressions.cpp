// Linked into every program of a ThreadSanitizer build. What libzero's own code touches stays under
// watch; these libraries come without instrumentation:
//
// - LibTorch and its OpenMP hand memory from thread to thread by reference counts and barriers that
//   ThreadSanitizer does not see.
// - Gloo's ~UnboundBuffer waits, on a reference count, for the I/O thread to let go of the buffer.

extern "C" const char* __tsan_default_suppressions();

extern "C" const char* __tsan_default_suppressions() {
  return "called_from_lib:libc10.so\n"
         "called_from_lib:libtorch_cpu.so\n"
         "called_from_lib:libgomp.so\n"
         "race:gloo::transport::tcp::UnboundBuffer::signalException\n"
         "race:gloo::transport::tcp::UnboundBuffer::handle\n";
}
