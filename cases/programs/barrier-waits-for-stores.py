"""A kernel whose loop stores to memory and has a barrier, compiled by the stack's clang: its numbers, and its waits."""

import ctypes
import glob
import re
import subprocess

import rocrepro

BODY = {
    "tail": "__syncthreads(); if (threadIdx.x / 32 == c % 4) g[threadIdx.x % 32] += 1.0f;",
    "head": "if (threadIdx.x / 32 == c % 4) g[threadIdx.x % 32] += 1.0f; __syncthreads();",
    "around": "__syncthreads(); if (threadIdx.x / 32 == c % 4) g[threadIdx.x % 32] += 1.0f; __syncthreads();",
}
SOURCE = """#include <hip/hip_runtime.h>
extern "C" __global__ void loop(float *g, int n) {
  for (int c = 0; c < n; c++) { %s }
}
""" % BODY[rocrepro.parameter("store")]

hip = ctypes.CDLL("libamdhip64.so")
must = rocrepro.must
found = ctypes.create_string_buffer(256)


def architecture():
    """The architecture of the device, as the name in its properties."""
    properties = ctypes.create_string_buffer(8192)
    function = getattr(hip, "hipGetDevicePropertiesR0600", None) or hip.hipGetDeviceProperties
    must(function(properties, 0), "hipGetDeviceProperties")
    return re.search(rb"gfx[0-9a-f]+", properties.raw).group().decode()


def compiled(gfx, name, *options):
    clang = sorted(glob.glob("/usr/lib/llvm-*/bin/clang"))[-1]
    how = ["-x", "hip", "--offload-device-only", "--offload-arch=" + gfx, "-O3", *options]
    subprocess.run([clang, *how, "-o", name, "loop.hip"], check=True)
    return name


def waits(text):
    """Whether on each way through the code a wait for stores stands between a store and the next barrier."""
    blocks, name = {"loop": []}, "loop"
    after = {}
    for line in text[text.index("\nloop:") :].split("\n")[2:]:
        line = line.split(";")[0].strip()
        if line.startswith(".Lfunc_end"):
            break
        if re.match(r"\.LBB\w+:", line):
            after[name] = line[:-1]
            name = line[:-1]
            blocks[name] = []
        elif line and not line.startswith("."):
            blocks[name].append(line.split())
    todo, seen = [("loop", False)], set()
    while todo:
        block, pending = todo.pop()
        if (block, pending) in seen:
            continue
        seen.add((block, pending))
        goes_on = True
        for word in blocks[block]:
            if re.match(r"(global|flat|buffer)_store", word[0]):
                pending = True
            elif word[0] == "s_waitcnt_vscnt" or word[0].startswith("s_wait_storecnt"):
                pending = pending and word[-1] not in ("0x0", "0")
            elif word[0] in ("s_barrier", "s_barrier_signal") and pending:
                return False
            elif word[0] == "s_branch" or word[0].startswith("s_cbranch"):
                todo.append((word[1], pending))
                goes_on = word[0] != "s_branch"
            elif word[0] == "s_endpgm":
                goes_on = False
            if not goes_on:
                break
        if goes_on and block in after:
            todo.append((after[block], pending))
    return True


rocrepro.phase("compile")
with open("loop.hip", "w") as file:
    file.write(SOURCE)
gfx = architecture()
code = open(compiled(gfx, "loop.co", "--no-gpu-bundle-output"), "rb").read()
text = open(compiled(gfx, "loop.s", "-S")).read()
print("measured: " + re.search(r"clang version .*?\(|clang version \S+", text).group())

rocrepro.phase("launch")
module, kernel, array = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
must(hip.hipModuleLoadData(ctypes.byref(module), code))
must(hip.hipModuleGetFunction(ctypes.byref(kernel), module, b"loop"))
before = (ctypes.c_float * 32)(*[3.0] * 32)
must(hip.hipMalloc(ctypes.byref(array), ctypes.c_size_t(128)))
must(hip.hipMemcpy(array, before, ctypes.c_size_t(128), 1))
values = [array, ctypes.c_int(10)]
pointers = (ctypes.c_void_p * 2)(*(ctypes.addressof(value) for value in values))
must(hip.hipModuleLaunchKernel(kernel, 1, 1, 1, 128, 1, 1, 0, None, pointers, None))
must(hip.hipDeviceSynchronize())
back = (ctypes.c_float * 32)()
must(hip.hipMemcpy(back, array, ctypes.c_size_t(128), 2))
# The sums, which are right as long as the stores are fast enough, and 1 if stores are waited for, 2 if not.
rocrepro.equal("sums and waits", [*back, 1.0 if waits(text) else 2.0], [13.0] * 32 + [1.0], before=[3.0] * 32 + [0.0])
rocrepro.done()
