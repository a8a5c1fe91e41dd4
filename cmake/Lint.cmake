# Targets format (rewrites), format-check and tidy; scripts/lint does the work, so that both ways check the same files.
foreach(lint "format;--fix" "format-check;--format" "tidy;--tidy")
  list(POP_FRONT lint name)
  add_custom_target(${name}
    COMMAND ${PROJECT_SOURCE_DIR}/scripts/lint --build ${PROJECT_BINARY_DIR} ${lint}
    WORKING_DIRECTORY ${PROJECT_SOURCE_DIR}
    USES_TERMINAL VERBATIM)
endforeach()
