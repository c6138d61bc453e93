// Stands in for NVRTC, of a version that there is not, so that a test sees which library was found.
extern "C" {
int nvrtcVersion(int* major, int* minor) { return *major = 13, *minor = 77, 0; }
int nvrtcGetNumSupportedArchs(int* count) { return *count = 0, 0; }
int nvrtcGetSupportedArchs(int*) { return 0; }
#define BITFOLD_STAND_IN(name) \
  int name() { return 1; }
BITFOLD_STAND_IN(nvrtcCreateProgram)
BITFOLD_STAND_IN(nvrtcDestroyProgram)
BITFOLD_STAND_IN(nvrtcAddNameExpression)
BITFOLD_STAND_IN(nvrtcCompileProgram)
BITFOLD_STAND_IN(nvrtcGetProgramLogSize)
BITFOLD_STAND_IN(nvrtcGetProgramLog)
BITFOLD_STAND_IN(nvrtcGetLoweredName)
BITFOLD_STAND_IN(nvrtcGetCUBINSize)
BITFOLD_STAND_IN(nvrtcGetCUBIN)
}
