cmake_minimum_required(VERSION 3.22)
# misuse.cpp: each of its commented calls is refused with one error, that of its comment, and
# nothing else is; every header, compiled as C++17, with one error that asks for C++20. COMPILERS is
# a list, INCLUDE bitfold's headers.
file(STRINGS ${CMAKE_CURRENT_LIST_DIR}/misuse.cpp reasons REGEX "^  // ")
list(LENGTH reasons count)
file(GLOB headers ${INCLUDE}/bitfold/*.hpp)
list(FILTER headers EXCLUDE REGEX "/(error|op|strict_math)\\.hpp$")  # those that know of no C++20
list(LENGTH headers header_count)

# Compiles a file, which fails; sets `said` to its errors, one to a line.
macro(errors_of compiler standard)
  execute_process(COMMAND ${compiler} ${standard} -fsyntax-only -x c++ -I${INCLUDE} ${ARGN}
                  ERROR_VARIABLE said)
  string(REPLACE ";" "," said "${said}")
  string(REGEX MATCHALL "[^\n]*error: [^\n]*" said "${said}")
  list(LENGTH said found)
endmacro()

foreach(compiler ${COMPILERS})
  set(limit -fmax-errors=0)
  if(compiler MATCHES "clang")
    set(limit -ferror-limit=0)
  endif()
  errors_of(${compiler} -std=c++20 ${limit} ${CMAKE_CURRENT_LIST_DIR}/misuse.cpp)
  foreach(line ${reasons})
    string(REGEX REPLACE "^  // " "" reason "${line}")
    if(NOT said MATCHES "${reason}")
      message(SEND_ERROR "${compiler}: not refused so: ${line}")
    endif()
  endforeach()
  if(NOT found EQUAL count)
    string(REPLACE ";" "\n" said "${said}")
    message(SEND_ERROR "${compiler}: ${found} errors for ${count} lines:\n${said}")
  endif()
  errors_of(${compiler} -std=c++17 ${headers})
  string(REGEX MATCHALL "bitfold wants C\\+\\+20: compile with -std=c\\+\\+20 or newer" asked "${said}")
  list(LENGTH asked asked)
  if(NOT found EQUAL header_count OR NOT asked EQUAL header_count)
    string(REPLACE ";" "\n" said "${said}")
    message(SEND_ERROR "${compiler}, C++17: ${found} errors for ${header_count} headers:\n${said}")
  endif()
endforeach()
