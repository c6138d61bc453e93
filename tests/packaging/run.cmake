# Installs bitfold if need be, builds the consumer and runs it.
macro(step)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE failed)
  if(failed)
    message(FATAL_ERROR "failed: ${ARGN}")
  endif()
endmacro()

file(REMOVE_RECURSE ${WORK})
file(MAKE_DIRECTORY ${WORK})
if(NOT WAY STREQUAL "fetch_content")
  step(${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/prefix)
endif()
if(WAY STREQUAL "pkg_config")
  # The file names the prefix that was configured; pkg-config can be told another.
  set(ENV{PKG_CONFIG_PATH} ${WORK}/prefix/${LIBDIR}/pkgconfig)
  execute_process(COMMAND pkg-config --define-variable=prefix=${WORK}/prefix --cflags --libs --static bitfold
                  OUTPUT_VARIABLE flags OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  separate_arguments(flags UNIX_COMMAND "${flags}")
  step(${CXX} -std=c++20 ${SOURCE}/examples/cpu.cpp ${flags} -o ${WORK}/consumer)
  step(${WORK}/consumer)
else()
  step(${CMAKE_COMMAND} -S ${SOURCE}/tests/packaging -B ${WORK}/build -G ${GENERATOR} -DWAY=${WAY}
       -DSOURCE=${SOURCE} -DCMAKE_PREFIX_PATH=${WORK}/prefix -DCMAKE_CXX_COMPILER=${CXX})
  step(${CMAKE_COMMAND} --build ${WORK}/build)
  step(${WORK}/build/consumer)
endif()
