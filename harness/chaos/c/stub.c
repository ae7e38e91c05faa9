// A libamdhip64 with a few functions that report success and do nothing.
#include <string.h>

int hipInit(unsigned flags) { return 0; }
int hipRuntimeGetVersion(int *version) { *version = 70253211; return 0; }
int hipGetDeviceCount(int *count) { *count = 1; return 0; }
const char *hipGetErrorName(int status) { return status ? "hipErrorUnknown" : "hipSuccess"; }
int hipGetDevicePropertiesR0600(void *properties, int device) {
    strcpy((char *)properties, "pretended");
    strcpy((char *)properties + 1160, "gfx1151");
    return 0;
}
#define WORKS(name) int name() { return 0; }
WORKS(hipMalloc) WORKS(hipFree) WORKS(hipMemcpy) WORKS(hipMemcpyAsync) WORKS(hipMemset) WORKS(hipMemsetAsync)
WORKS(hipStreamCreate) WORKS(hipStreamCreateWithFlags) WORKS(hipStreamDestroy) WORKS(hipStreamSynchronize)
WORKS(hipDeviceSynchronize) WORKS(hipHostMalloc) WORKS(hipHostFree) WORKS(hipHostRegister) WORKS(hipHostUnregister)
WORKS(hipGetLastError) WORKS(hipPeekAtLastError)
