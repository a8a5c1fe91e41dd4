# The target docs: Doxygen's pages of the public headers, into <build>/reference. A warning is an error.
find_package(Doxygen 1.9 QUIET)
if(NOT DOXYGEN_FOUND)
  message(STATUS "Doxygen not found: no target docs (Debian: apt install doxygen)")
  return()
endif()

get_property(headers GLOBAL PROPERTY LIBZERO_PUBLIC_HEADERS)
list(TRANSFORM headers PREPEND ${PROJECT_SOURCE_DIR}/)
set(DOXYGEN_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/reference)
set(DOXYGEN_PROJECT_NAME libzero)
set(DOXYGEN_STRIP_FROM_PATH ${PROJECT_SOURCE_DIR})
set(DOXYGEN_STRIP_FROM_INC_PATH ${PROJECT_SOURCE_DIR})
set(DOXYGEN_INCLUDE_PATH ${PROJECT_SOURCE_DIR})
set(DOXYGEN_QUIET YES)
set(DOXYGEN_GENERATE_LATEX NO)
set(DOXYGEN_WARN_AS_ERROR FAIL_ON_WARNINGS)
set(DOXYGEN_WARN_IF_UNDOCUMENTED NO)
set(DOXYGEN_EXTRACT_ALL YES)  # many members say by their names what they are
set(DOXYGEN_JAVADOC_AUTOBRIEF YES)
set(DOXYGEN_MACRO_EXPANSION YES)
set(DOXYGEN_EXPAND_ONLY_PREDEF YES)
# LibTorch's macro makes a getter and a setter of each option.
set(DOXYGEN_PREDEFINED "TORCH_ARG(T,name)=T name")
# The text at the head of a header is the file's, not that of the namespace that comes next.
set(DOXYGEN_INPUT_FILTER "sed 2s,^$,///@file,")
doxygen_add_docs(docs ${headers} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR} COMMENT "Reference of the public headers")
