# case: copies/set-rows
"""An extension clears a box of a tensor of three dimensions."""
import ctypes

import torch


class Pitched(ctypes.Structure):
    _fields_ = [("ptr", ctypes.c_void_p), ("pitch", ctypes.c_size_t), ("xsize", ctypes.c_size_t),
                ("ysize", ctypes.c_size_t)]


class Extent(ctypes.Structure):
    _fields_ = [("width", ctypes.c_size_t), ("height", ctypes.c_size_t), ("depth", ctypes.c_size_t)]


hip = ctypes.CDLL("libamdhip64.so.7")
hip.hipMemset3D.argtypes = [Pitched, ctypes.c_int, Extent]
box = torch.ones(4, 5, 64, dtype=torch.uint8, device="cuda")
torch.cuda.synchronize()
assert hip.hipMemset3D(Pitched(box.data_ptr(), 64, 64, 5), 0, Extent(64, 3, 3)) == 0
torch.cuda.synchronize()
expected = torch.ones(4, 5, 64, dtype=torch.uint8)
expected[:3, :3] = 0
torch.testing.assert_close(box.cpu(), expected)
