//! HSA queries about agents: the host processor and the emulated GPUs.

use std::ffi::c_void;

use isa::LARGEST_WORKGROUP;

use crate::{
    abi::{Agent, InfoOutput, Status},
    clock, config, images,
    isas::ISA,
    memory, model,
    report::trace,
};

#[unsafe(no_mangle)]
extern "C" fn hsa_iterate_agents(
    callback: Option<extern "C" fn(Agent, *mut c_void) -> Status>,
    data: *mut c_void,
) -> Status {
    let Some(callback) = callback else { return Status::INVALID_ARGUMENT };
    for agent in Agent::all() {
        let status = callback(agent, data);
        if status != Status::SUCCESS {
            return status;
        }
    }
    Status::SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn hsa_agent_get_info(agent: Agent, attribute: u32, value: InfoOutput) -> Status {
    match (agent, agent.gpu()) {
        (Agent::CPU, _) => host_info(attribute, value),
        (_, Some(index)) => device_info(agent, index, attribute, value),
        _ => Status::INVALID_AGENT,
    }
}

fn host_info(attribute: u32, value: InfoOutput) -> Status {
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get() as u32);
    match attribute {
        // NAME, VENDOR_NAME, AMD_PRODUCT_NAME
        0 => value.text::<64>("host processor"),
        1 => value.text::<64>("CPU"),
        0xA009 => value.text::<64>("host processor"),
        // FEATURE: no features. PROFILE: full. DEVICE: CPU.
        2 => value.put(0u32),
        4 => value.put(1u32),
        17 => value.put(0u32),
        // AMD_COMPUTE_UNIT_COUNT
        0xA002 => value.put(threads),
        // AMD_UUID
        0xA011 => value.text::<21>("CPU-XX"),
        _ => common_info(attribute, value),
    }
}

/// Writes an attribute to `value` if the attribute is the same for the host and the GPUs. Rejects all other attributes.
fn common_info(attribute: u32, value: InfoOutput) -> Status {
    match attribute {
        // MACHINE_MODEL: large.
        3 => value.put(1u32),
        // DEFAULT_FLOAT_ROUNDING_MODE: near.
        5 => value.put(2u32),
        // NODE, AMD_DRIVER_NODE_ID, AMD_BDFID, AMD_DOMAIN of the host: all zero.
        16 | 0xA004 | 0xA006 | 0xA00F => value.put(0u32),
        // CACHE_SIZE
        18 => value.put([0u32; 4]),
        // VERSION_MAJOR, VERSION_MINOR
        21 | 22 => value.put(1u16),
        // EXTENSIONS: none.
        20 => value.put([0u8; 128]),
        // FBARRIER_MAX_SIZE
        11 => value.put(32u32),
        // AMD_MAX_ADDRESS_WATCH_POINTS, AMD_ASIC_FAMILY_ID, AMD_UCODE_VERSION and AMD_SDMA_UCODE_VERSION: the emulated
        // device has no firmware.
        0xA005 | 0xA107..=0xA109 => value.put(0u32),
        // AMD_MEMORY_PROPERTIES, AMD_AQL_EXTENSIONS: bit fields of eight bytes.
        0xA114 | 0xA115 => value.put([0u8; 8]),
        _ => {
            trace!("agent_get_info: attribute {attribute:#x} is not known");
            Status::INVALID_ARGUMENT
        }
    }
}

/// Frequency of the GPU's clock counter, in Hz.
const GPU_FREQUENCY: u64 = 100_000_000;

fn device_info(agent: Agent, index: usize, attribute: u32, value: InfoOutput) -> Status {
    let number = index as u32;
    let arch = config::get().arch;
    let model = model::for_arch(arch);
    match attribute {
        // NAME, VENDOR_NAME, AMD_PRODUCT_NAME
        0 => value.text::<64>(arch.name()),
        1 => value.text::<64>("AMD"),
        0xA009 => value.text::<64>(&format!("rocrepro emulated {arch}")),
        // FEATURE: kernel dispatch. PROFILE: base. DEVICE: GPU.
        2 => value.put(1u32),
        4 => value.put(0u32),
        17 => value.put(1u32),
        // WAVEFRONT_SIZE, WORKGROUP_MAX_DIM, WORKGROUP_MAX_SIZE
        6 => value.put(arch.wave_size()),
        7 => value.put([LARGEST_WORKGROUP as u16; 3]),
        8 => value.put(LARGEST_WORKGROUP),
        // GRID_MAX_DIM, GRID_MAX_SIZE
        9 => value.put([i32::MAX as u32, u32::from(u16::MAX), u32::from(u16::MAX)]),
        10 => value.put(u32::MAX),
        // QUEUES_MAX, QUEUE_MIN_SIZE, QUEUE_MAX_SIZE, QUEUE_TYPE
        12 => value.put(128u32),
        13 => value.put(64u32),
        14 => value.put(128u32 << 10),
        15 => value.put(0u32),
        // NODE and AMD_DRIVER_NODE_ID: the host is node 0.
        16 | 0xA004 => value.put(1 + number),
        // CACHE_SIZE in bytes.
        18 => {
            let [l1, l2, l3] = model.caches.map(|kib| kib << 10);
            value.put([l1, l2, l3, 0])
        }
        // EXTENSIONS: the bit for images. ROCr sets the bit on every GPU, and without it HIP rejects even
        // `hipMallocPitch`. Devices without images report a maximum image size of zero.
        20 => {
            let mut extensions = [0u8; 128];
            extensions[0] = 1 << 1;
            value.put(extensions)
        }
        // ISA
        19 => value.put(ISA),
        // FAST_F16_OPERATION
        24 => value.put(true),
        // Maximum sizes of images and numbers of handles. HIP queries them even if no image is ever created.
        0x3000..=0x300F => {
            images::max_dimension(attribute, value).unwrap_or(Status::INVALID_ARGUMENT)
        }
        0xA000 => value.put(model.chip_id),
        0xA001 => value.put(model.cache_line),
        // COMPUTE_UNIT_COUNT, COOPERATIVE_COMPUTE_UNIT_COUNT
        0xA002 | 0xA014 => value.put(model.compute_units),
        0xA003 => value.put(model.clock),
        // BDFID
        0xA006 => value.put(model::location(number)),
        0xA007 => value.put(model.bus),
        0xA008 => value.put(model.memory_clock),
        0xA00A => value.put(model.waves_per_unit),
        0xA00B => value.put(model.simds_per_unit),
        0xA00C => value.put(model.shader_engines),
        0xA00D => value.put(model.arrays_per_engine),
        // HDP_FLUSH: the addresses of two registers, which are null because no flush is needed.
        0xA00E => value.put([0u64; 2]),
        // COOPERATIVE_QUEUES
        0xA010 => value.put(true),
        // UUID
        0xA011 => value.text::<21>(&format!("GPU-{:016x}", model::unique_id(number))),
        // ASIC_REVISION
        0xA012 => value.put(1u32),
        // SVM_DIRECT_HOST_ACCESS
        0xA013 => value.put(false),
        // MEMORY_AVAIL
        0xA015 => value.put(memory::available(agent)),
        // TIMESTAMP_FREQUENCY of the GPU's own counter.
        0xA016 => value.put(GPU_FREQUENCY),
        // NUM_SDMA_ENG, NUM_SDMA_XGMI_ENG
        0xA10A => value.put(2u32),
        0xA10B => value.put(0u32),
        // IOMMU_SUPPORT: none.
        0xA110 => value.put(0u32),
        0xA111 => value.put(model.dies),
        // DRIVER_UID
        0xA112 => value.put(model::unique_id(number)),
        // NEAREST_CPU
        0xA113 => value.put(Agent::CPU),
        // MEMORY_PROPERTIES: bit 0 is set for an APU.
        0xA114 => value.put([u8::from(arch.is_apu()), 0, 0, 0, 0, 0, 0, 0]),
        // SCRATCH_LIMIT_MAX, SCRATCH_LIMIT_CURRENT (ROCm 7.0), in bytes.
        0xA116 | 0xA117 => value.put(config::get().total_memory() / 2),
        // CLOCK_COUNTERS (ROCm 7.0): counters of the GPU, the processor and the system, and the frequency of the system
        // counter.
        0xA118 => {
            let now = clock::now();
            let gpu = now / (clock::FREQUENCY / GPU_FREQUENCY);
            value.put([gpu, now, now, clock::FREQUENCY])
        }
        _ => common_info(attribute, value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_product_name_says_that_the_device_is_emulated() {
        let mut name = [0xffu8; 64];
        // SAFETY: `InfoOutput` is a transparent pointer, and the type of the attribute is `char[64]`.
        let answer = unsafe { std::mem::transmute::<*mut u8, InfoOutput>(name.as_mut_ptr()) };
        assert_eq!(hsa_agent_get_info(Agent::GPU, 0xA009, answer), Status::SUCCESS);
        let text = std::ffi::CStr::from_bytes_until_nul(&name).unwrap().to_str().unwrap();
        assert_eq!(text, "rocrepro emulated gfx1151");
    }
}
