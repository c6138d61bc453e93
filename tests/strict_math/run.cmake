cmake_minimum_required(VERSION 3.22)
# Every part of -ffast-math is refused by one message, when the consumer is compiled or when it starts;
# what changes no bit is not. COMPILERS is a list, INCLUDE bitfold's headers, WORK a folder to write in.
file(MAKE_DIRECTORY ${WORK})
set(refused "-ffast-math" "-Ofast" "-ffast-math -fno-finite-math-only" "-ffast-math -fsigned-zeros"
    "-ffast-math -fmath-errno" "-funsafe-math-optimizations" "-freciprocal-math" "-ffinite-math-only"
    "-fno-signed-zeros" "-fassociative-math -fno-signed-zeros -fno-trapping-math")
set(taken "-O0" "-O3 -march=native" "-O2 -frounding-math" "-O2 -fno-math-errno -fno-trapping-math")

foreach(compiler ${COMPILERS})
  foreach(flags ${refused} ${taken})
    separate_arguments(list UNIX_COMMAND "-O2 ${flags}")
    execute_process(COMMAND ${compiler} -std=c++20 -I${INCLUDE} ${list}
                            ${CMAKE_CURRENT_LIST_DIR}/consumer.cpp -o ${WORK}/consumer
                    RESULT_VARIABLE status ERROR_VARIABLE said)
    if(status EQUAL 0)
      execute_process(COMMAND ${WORK}/consumer RESULT_VARIABLE status ERROR_VARIABLE said)
    endif()
    if(flags IN_LIST taken)
      if(NOT status EQUAL 0)
        message(SEND_ERROR "${compiler} ${flags}: refused, or wrong: ${said}")
      endif()
    elseif(status EQUAL 0)
      message(SEND_ERROR "${compiler} ${flags}: not refused")
    elseif(NOT said MATCHES "bitfold: .*-ffast-math.*compile it without")
      message(SEND_ERROR "${compiler} ${flags}: refused without a reason: ${said}")
    endif()
  endforeach()
endforeach()
