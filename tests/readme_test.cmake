# The documents show the examples exactly as they are compiled.
foreach(shown README.md:cpu.cpp docs/cuda.md:cuda.cpp docs/regression.md:testing.cpp docs/own.md:own_ops.hpp
        docs/own.md:own.cpp docs/own.md:own_order.cpp docs/shapes.md:shapes.cpp
        docs/shapes.md:shapes_at_run_time.cpp docs/rows.md:rows.cpp docs/products.md:products.cpp docs/distributed.md:ranks_mpi.cpp README.md:python/numpy_in_ten_lines.py README.md:python/seven_sums.py
        docs/python.md:python/numpy_in_ten_lines.py)
  string(REPLACE ":" ";" shown ${shown})
  list(POP_FRONT shown document example)
  file(READ ${SOURCE}/${document} text)
  file(READ ${SOURCE}/examples/${example} code)
  set(language cpp)
  if(example MATCHES "py$")
    set(language python)
  endif()
  string(FIND "${text}" "```${language}\n${code}```" at)
  if(at EQUAL -1)
    message(FATAL_ERROR "${document} does not show examples/${example} as it is")
  endif()
endforeach()
