cmake_minimum_required(VERSION 3.22)
# Every part of -ffast-math is refused by one message, when the consumer is compiled or when it starts, and so is contraction
# where there are operations of the consumer's own; what changes no bit is not. COMPILERS is a list, INCLUDE bitfold's headers, WORK a folder to write in.
file(MAKE_DIRECTORY ${WORK})
set(refused "-ffast-math" "-Ofast" "-ffast-math -fno-finite-math-only" "-ffast-math -fsigned-zeros"
    "-ffast-math -fmath-errno" "-funsafe-math-optimizations" "-freciprocal-math" "-ffinite-math-only"
    "-fno-signed-zeros" "-fassociative-math -fno-signed-zeros -fno-trapping-math")
set(taken "-O0" "-O3 -march=native" "-O2 -frounding-math" "-O2 -fno-math-errno -fno-trapping-math")

# Builds that source with those flags, and runs it: it has to be taken, or to be refused in words that match.
function(check compiler source flags words)
  separate_arguments(list UNIX_COMMAND "-O2 ${flags}")
  execute_process(COMMAND ${compiler} -std=c++20 -I${INCLUDE} ${list}
                          ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/${source} -o ${WORK}/consumer
                  RESULT_VARIABLE status ERROR_VARIABLE said)
  if(status EQUAL 0)
    execute_process(COMMAND ${WORK}/consumer RESULT_VARIABLE status ERROR_VARIABLE said)
  endif()
  if(words STREQUAL "")
    if(NOT status EQUAL 0)
      message(SEND_ERROR "${compiler} ${flags}: refused, or wrong: ${said}")
    endif()
  elseif(status EQUAL 0)
    message(SEND_ERROR "${compiler} ${flags}: not refused")
  elseif(NOT said MATCHES "${words}")
    message(SEND_ERROR "${compiler} ${flags}: refused without a reason: ${said}")
  endif()
endfunction()

foreach(compiler ${COMPILERS})
  execute_process(COMMAND ${compiler} -march=native -dM -E -x c++ /dev/null OUTPUT_VARIABLE macros)
  set(its_own "")
  if(macros MATCHES "__clang__")  # which defines no macro for these
    set(its_own "-fno-honor-nans" "-fno-honor-infinities"
        "-fapprox-func -fno-honor-infinities -mrecip=all")
  endif()
  foreach(flags ${refused} ${its_own})
    check(${compiler} consumer.cpp "${flags}" "bitfold: .*-ffast-math.*compile it without")
  endforeach()
  if(NOT its_own)
    set(flag -fsingle-precision-constant)
    check(${compiler} consumer.cpp ${flag} "bitfold: .*${flag}.*compile it without")
  endif()
  foreach(flags ${taken})
    check(${compiler} consumer.cpp "${flags}" "")
  endforeach()
  # Only where one instruction multiplies and adds is there something to contract.
  set(words "")
  if(macros MATCHES "__FMA__|__ARM_FEATURE_FMA")
    set(words "bitfold: .*contraction.*compile it with -ffp-contract=off")
  endif()
  check(${compiler} own.cpp "-march=native -ffp-contract=fast" "${words}")
  check(${compiler} own.cpp "-march=native -ffp-contract=off" "")
endforeach()

# nvcc, whose host code another compiler compiles. (What it is told of a GPU's arithmetic shows on a GPU: tests/packaging.)
find_program(NVCC nvcc PATHS /usr/local/cuda/bin)
if(NVCC)
  foreach(flags -ffast-math -fno-signed-zeros -ffinite-math-only)
    check(${NVCC} consumer.cpp "-x cu -Xcompiler=${flags}" "bitfold: .*-ffast-math.*compile it without")
  endforeach()
  check(${NVCC} consumer.cpp "-x cu" "")
  check(${NVCC} own.cpp "-x cu -Xcompiler=-march=native,-ffp-contract=fast" "${words}")
  check(${NVCC} own.cpp "-x cu -Xcompiler=-march=native,-ffp-contract=off" "")
endif()
