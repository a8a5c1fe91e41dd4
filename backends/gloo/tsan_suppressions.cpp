// libgloo is not built with the sanitizer, which therefore cannot see that ~UnboundBuffer waits, on
// a reference count, for the I/O thread to let go of the buffer. Linked into programs that load the
// plug-in, in thread sanitizer builds only.

extern "C" const char* __tsan_default_suppressions();

extern "C" const char* __tsan_default_suppressions() {
  return "race:gloo::transport::tcp::UnboundBuffer::signalException\n"
         "race:gloo::transport::tcp::UnboundBuffer::handle\n";
}
