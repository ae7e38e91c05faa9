//! Emulated AMD device below a released HSA runtime. It implements the functions of the thunk (`hsaKmt*`), the library
//! through which ROCr, AMD's HSA runtime, uses the driver. On hardware, libhsakmt and the Linux kernel implement them.
//!
//! With `HSA_ENABLE_DTIF=1`, ROCr 7.0 and later opens `libdtif.so` and takes every function of the thunk and of
//! libdrm_amdgpu from it (`ThunkLoader::LoadThunkApiTable`). A thread per queue executes the packets, and the crate
//! `isa` executes the kernels. The configuration is one environment variable ([`device::CONFIG_VARIABLE`]), and
//! messages go to standard error in lines that start with `rocrepro-device:`.
//!
//! The device has no SDMA engines that execute commands, so `HSA_ENABLE_SDMA=0` must be set. ROCr then copies with
//! kernels. The device does not raise interrupts either, because ROCr polls all signals with DTIF.
//!
//! Sources of layouts and rules are ROCr's public headers (`hsakmttypes.h`, `hsakmt.h`, `amd_hsa_queue.h`,
//! `amd_hsa_signal.h`) and libdrm's `amdgpu.h`.

#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
compile_error!("the HSA runtime, and therefore this device, exists only for x86-64 Linux");

mod address_map;
mod buffer_objects;
mod clocks;
mod configuration;
mod dispatch;
mod drm;
mod event;
mod identity;
mod in_use;
mod kernel_name;
mod memory;
mod node;
mod outcome;
mod packets;
mod platform;
mod pointer;
mod queue;
mod queue_functions;
mod registration;
mod status;
mod topology;
mod types;
mod unsupported;
