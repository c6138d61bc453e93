# README.md shows the examples exactly as they are compiled.
file(READ ${SOURCE}/README.md readme)
foreach(example cpu cuda)
  file(READ ${SOURCE}/examples/${example}.cpp code)
  string(FIND "${readme}" "```cpp\n${code}```" at)
  if(at EQUAL -1)
    message(FATAL_ERROR "README.md does not show examples/${example}.cpp as it is")
  endif()
endforeach()
