# case: programs/mapped-pieces-of-any-size
"""An allocator of growing segments, as PyTorch's expandable segments, with pieces of different sizes."""
import ctypes

import torch


class Properties(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int), ("handle_types", ctypes.c_int), ("location_type", ctypes.c_int),
                ("device", ctypes.c_int), ("metadata", ctypes.c_void_p), ("flags", ctypes.c_ubyte * 8)]


class Access(ctypes.Structure):
    _fields_ = [("location_type", ctypes.c_int), ("device", ctypes.c_int), ("flags", ctypes.c_int)]


hip = ctypes.CDLL("libamdhip64.so.7")
torch.zeros(1, device="cuda")
properties, access, grain = Properties(1, 0, 1, 0), Access(1, 0, 3), ctypes.c_size_t()
hip.hipMemGetAllocationGranularity(ctypes.byref(grain), ctypes.byref(properties), 0)
ends = []
for _ in range(4):
    address = ctypes.c_void_p()
    size = ctypes.c_size_t(200 * grain.value)
    assert hip.hipMemAddressReserve(ctypes.byref(address), size, ctypes.c_size_t(0), None, ctypes.c_ulonglong(0)) == 0
    ends.append(address.value)
for piece in range(6):
    for pool in range(4):
        size = ctypes.c_size_t(grain.value * (1 + (7 * piece + 3 * pool) % 11))
        handle, at = ctypes.c_void_p(), ctypes.c_void_p(ends[pool])
        assert hip.hipMemCreate(ctypes.byref(handle), size, ctypes.byref(properties), ctypes.c_ulonglong(0)) == 0
        assert hip.hipMemMap(at, size, ctypes.c_size_t(0), handle, ctypes.c_ulonglong(0)) == 0
        hip.hipMemRelease(handle)
        status = hip.hipMemSetAccess(at, size, ctypes.byref(access), ctypes.c_size_t(1))
        assert status == 0, "piece %d of segment %d: hipMemSetAccess returned %d" % (piece, pool, status)
        ends[pool] += size.value
