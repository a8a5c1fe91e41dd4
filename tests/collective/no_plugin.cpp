// A shared object that exports nothing of plugin_abi.h.

extern "C" int something_else();
extern "C" int something_else() {
  return 1;
}
