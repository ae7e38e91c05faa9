"""A graph that counts on, launched several times; each result is copied before the next launch."""

import ctypes
import struct

import rocrepro

SOURCE = b"""
extern "C" __global__ void next(unsigned *out, unsigned *state, unsigned n) {
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = state[i] = state[i] * 3u + i;
}"""

hip, rtc = ctypes.CDLL("libamdhip64.so"), ctypes.CDLL("libhiprtc.so")
must, ref = rocrepro.must, ctypes.byref


def compiled():
    program, size = ctypes.c_void_p(), ctypes.c_size_t()
    must(rtc.hiprtcCreateProgram(ref(program), SOURCE, b"next.hip", 0, None, None), "hipRTC")
    must(rtc.hiprtcCompileProgram(program, 0, None), "hipRTC")
    must(rtc.hiprtcGetCodeSize(program, ref(size)), "hipRTC")
    code = ctypes.create_string_buffer(size.value)
    must(rtc.hiprtcGetCode(program, code), "hipRTC")
    module, kernel = ctypes.c_void_p(), ctypes.c_void_p()
    must(hip.hipModuleLoadData(ref(module), code))
    must(hip.hipModuleGetFunction(ref(kernel), module, b"next"))
    return kernel


n = 300
size = ctypes.c_size_t(4 * n)
stream, graph, launched = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
out, state = ctypes.c_void_p(), ctypes.c_void_p()
first = list(range(1, n + 1))
kernel = compiled()
for array in (out, state):
    must(hip.hipMalloc(ref(array), size))
    must(hip.hipMemcpy(array, struct.pack("<%dI" % n, *first), size, 1))

rocrepro.phase("capture")
must(hip.hipStreamCreate(ref(stream)))
must(hip.hipStreamBeginCapture(stream, 0))
values = [out, state, ctypes.c_uint(n)]
pointers = (ctypes.c_void_p * 3)(*(ctypes.addressof(value) for value in values))
must(hip.hipModuleLaunchKernel(kernel, 3, 1, 1, 128, 1, 1, 0, stream, pointers, None))
must(hip.hipStreamEndCapture(stream, ref(graph)))
must(hip.hipGraphInstantiate(ref(launched), graph, None, None, ctypes.c_size_t(0)))

rocrepro.phase("replay")
right = first
kept = []
for replay in range(int(rocrepro.parameter("replays"))):
    must(hip.hipGraphLaunch(launched, stream))
    back = ctypes.create_string_buffer(size.value)
    must(hip.hipMemcpyAsync(back, out, size, 2, stream))
    must(hip.hipStreamSynchronize(stream))
    before, right = right, [(value * 3 + i) % 2**32 for i, value in enumerate(right)]
    kept.append((back, right, before))
for number, (back, right, before) in enumerate(kept):
    got = struct.unpack("<%dI" % n, back.raw)
    rocrepro.equal("replay %d" % number, got, right, before=before)
rocrepro.done()
