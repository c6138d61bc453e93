cmake_minimum_required(VERSION 3.22)
# The command line CLI where few threads can be made or none (STAND_IN is preloaded): what it gives
# where there are. WORK is a folder to write in.
file(REMOVE_RECURSE ${WORK})
file(MAKE_DIRECTORY ${WORK})
string(REPEAT "abcd,+-.0123456?" 262144 text)  # 2^20 floats
file(WRITE ${WORK}/x.bin "${text}")
string(REPEAT "?6543210.-+,dcba" 65536 text)
file(WRITE ${WORK}/y.bin "${text}")
foreach(threads 1000000 0 2)
  foreach(arguments
          "record --dtype f32 --ops sum,var,count_distinct x.bin y.bin --out golden${threads}.json"
          "check golden1000000.json"
          "reduce sum --method exact --dtype f32 --stream x.bin")
    separate_arguments(list UNIX_COMMAND "${arguments}")
    execute_process(COMMAND ${CMAKE_COMMAND} -E env LD_PRELOAD=${STAND_IN}
                            STAND_IN_THREADS=${threads} ${CLI} ${list}
                    WORKING_DIRECTORY ${WORK} RESULT_VARIABLE status OUTPUT_VARIABLE out ERROR_VARIABLE err)
    if(NOT status EQUAL 0)
      message(SEND_ERROR "${threads} threads: bitfold ${arguments}: ${status}: ${err}")
    endif()
  endforeach()
  if(threads EQUAL 1000000)
    set(want "${out}")
  elseif(NOT out STREQUAL want)
    message(SEND_ERROR "${threads} threads: ${out}, not ${want}")
  endif()
  file(READ ${WORK}/golden${threads}.json golden)
  file(READ ${WORK}/golden1000000.json golden_of_all)
  if(NOT golden STREQUAL golden_of_all)
    message(SEND_ERROR "${threads} threads: another golden file")
  endif()
endforeach()
