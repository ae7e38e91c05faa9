//! Facts about generations of AMD GPUs.
//!
//! Code asks the table for a fact (`arch.facts().lds_bytes`). The generation itself is private, because a `match` on it
//! would silently treat a new generation by its `_` arm. A new generation is a new variant of `Generation`. The
//! compiler then requires a row for it, and the row requires every fact. A fact with more than two values is an enum.
//! If a value is added, the compiler lists every `match` on that fact.
//!
//! ```compile_fail
//! // The generation is private.
//! use device::Generation;
//! ```
//!
//! ```compile_fail
//! // A row that does not name every fact is an error.
//! let row = device::Facts { lds_bytes: 64 << 10 };
//! ```
//!
//! ```compile_fail
//! // A match must name all values of a fact.
//! fn has_matrices(facts: &device::Facts) -> bool {
//!     match facts.matrix {
//!         device::MatrixUnit::Absent => false,
//!         device::MatrixUnit::Mfma => true,
//!     }
//! }
//! ```
//!
//! Sources, unless a fact names another one: AMD's ISA guides for Vega 7 nm, CDNA 1 to 4 and RDNA 2 to 4, and LLVM's
//! [AMDGPU usage guide](https://llvm.org/docs/AMDGPUUsage.html) and
//! [AMDGPU.td](https://github.com/llvm/llvm-project/blob/main/llvm/lib/Target/AMDGPU/AMDGPU.td).

mod rows;

pub(crate) use rows::Generation;

/// Binary encoding of instructions ("Microcode Formats" in the ISA guides).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Microcode {
    /// Vega and CDNA.
    Gfx9,
    /// RDNA 2.
    Gfx10,
    /// RDNA 3 and 3.5.
    Gfx11,
    /// RDNA 4.
    Gfx12,
    /// GFX12 with new instructions, 64-bit literals and new modifiers (`scale_offset`).
    Gfx1250,
}

impl Microcode {
    /// Returns true for the encodings of Vega and CDNA.
    pub const fn is_gfx9(self) -> bool {
        match self {
            Microcode::Gfx9 => true,
            Microcode::Gfx10 | Microcode::Gfx11 | Microcode::Gfx12 | Microcode::Gfx1250 => false,
        }
    }

    /// Returns true for the encodings that RDNA 4 introduced.
    pub const fn is_gfx12(self) -> bool {
        match self {
            Microcode::Gfx12 | Microcode::Gfx1250 => true,
            Microcode::Gfx9 | Microcode::Gfx10 | Microcode::Gfx11 => false,
        }
    }
}

/// Counters of outstanding results, and the instructions that wait for them ("Data dependency resolution").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitCounters {
    /// VM_CNT also counts stores, and LGKM_CNT has 4 bits.
    Gfx9,
    /// VS_CNT counts stores, and LGKM_CNT has 6 bits.
    Gfx10,
    /// The counters of GFX10, in other bits of `s_waitcnt`.
    Gfx11,
    /// Each counter has its own wait instruction, and KM_CNT counts results of scalar loads and messages.
    Gfx12,
    /// The wait instructions and counters of GFX12, and three more counters: X_CNT for address translations, ASYNC_CNT
    /// and TENSOR_CNT. The interpreter does not execute the instructions that raise ASYNC_CNT and TENSOR_CNT.
    Gfx1250,
}

/// Layout of buffer, image and sampler descriptors ("Buffer resource descriptor", "Image resource descriptor").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Descriptors {
    /// Vega and CDNA.
    Gfx9,
    /// RDNA 2.
    Gfx10,
    /// RDNA 3 and 3.5.
    Gfx11,
    /// RDNA 4.
    Gfx12,
    /// 57-bit addresses and 45-bit sizes (LLVM, `has45BitNumRecordsBufferResource`). The interpreter does not support
    /// this layout.
    Gfx1250,
}

/// Family of matrix instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MatrixUnit {
    /// The architecture has no matrix instructions.
    Absent,
    /// `v_mfma_*` of CDNA.
    Mfma,
    /// `v_wmma_*` of RDNA 3: each group of 16 lanes has its own copy of A and B.
    WmmaRepeated,
    /// `v_wmma_*` of RDNA 4: A and B are divided along k between the groups of 16 lanes.
    WmmaSpread,
    /// `v_wmma_*` with other sizes and layouts, which the interpreter does not support.
    Wmma1250,
}

/// Order in which a dense matrix instruction adds products, as measured by the authors of
/// [MMA-Sim](https://arxiv.org/abs/2511.10909).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MatrixSums {
    /// Products are added in ascending order of k, and each sum is rounded. Also used if the order was not measured.
    Ascending,
    /// f16 and bf16 products are added in pairs (CDNA 1).
    Pairs,
    /// f16 and bf16 products are added in pairs. Denormal inputs and denormal sums of bf16 products are treated as zero
    /// (CDNA 2).
    PairsOfNormals,
    /// Products of f16, bf16, xf32 and fp8 are aligned to the greatest exponent and added as integers (CDNA 3).
    Aligned,
}

/// Formats of 8-bit floating-point numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Float8 {
    /// No instruction uses 8-bit floating-point numbers.
    Absent,
    /// Formats without infinities and negative zero (CDNA 3).
    Fnuz,
    /// Formats of the Open Compute Project (OCP).
    Ocp,
    /// Formats of the Open Compute Project (OCP), in which NaNs keep their sign in conversions. Source:
    /// `amd_hip_ocp_host.hpp` of HIP, which claims to compute as CDNA 4 does.
    OcpSignedNans,
}

/// Bits of memory instructions that select the scope of synchronisation (LLVM's AMDGPU usage guide, "Memory Model").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScopeBits {
    /// `glc`. A load with `glc` reads the memory of the device. Stores specify no scope.
    Glc,
    /// `glc` for the scope of the workgroup; `glc` and `dlc` for the scope of the device. Stores specify no scope.
    GlcDlc,
    /// `sc0` and `sc1`, in loads and stores. A store without `sc1` stays in a private cache until that cache is written
    /// back.
    Sc,
    /// `scope:`, in loads and stores.
    Scope,
}

/// Encodings of the multiplication in which zero times any value is zero: `v_mul_legacy_f32`, or `v_mul_dx9_zero_f32`
/// in later generations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LegacyMultiply {
    /// The instruction does not exist.
    Absent,
    /// The instruction has only a 64-bit encoding.
    Long,
    /// The instruction has a 32-bit and a 64-bit encoding.
    Short,
}

/// Facts about all architectures of one generation.
#[derive(Debug)]
pub struct Facts {
    /// True if AMD has published an ISA guide for the generation. Otherwise the interpreter executes only the
    /// instructions that other sources describe, and tests that cover all architectures skip this generation.
    pub has_isa_guide: bool,
    /// Wave sizes that a kernel descriptor can select, in lanes, the default one first.
    pub wave_sizes: &'static [u32],
    /// True if the compute units form pairs (workgroup processors), and a workgroup may use both units of a pair.
    pub has_workgroup_processors: bool,
    /// Maximum LDS size of a workgroup, in bytes. Source: AMDGPU usage guide, "Processors", and the CDNA 4 ISA guide,
    /// "Local Data Share".
    pub lds_bytes: u32,
    /// Granule in which a compute unit allocates LDS to a workgroup, in bytes. Source: LLVM, "Model LDS encoding
    /// granularity" (pull request 224852).
    pub lds_granule: u32,
    /// Number of bits of M0 that hold the LDS address of a load from memory to the LDS.
    pub lds_address_bits: u32,
    /// Unit of the register count in the kernel descriptor, as a number of vector registers per lane. If the unit
    /// depends on the wave size, this is the larger of the two units. Source: AMDGPU usage guide,
    /// GRANULATED_WORKITEM_VGPR_COUNT.
    pub register_granule: usize,
    /// True if the ids of a work-item are packed into one vector register, 10 bits each. Source: AMDGPU usage guide,
    /// "Initial Kernel Execution State".
    pub packs_work_item_ids: bool,
    /// True if a wave starts with the ids of its workgroup and of itself in trap temporaries (TTMP7 to TTMP9) instead
    /// of scalar registers.
    pub ids_in_trap_temporaries: bool,
    /// True if MODE and COMPUTE_PGM_RSRC1 have the bits DX10_CLAMP and IEEE.
    pub has_ieee_mode: bool,

    /// True if MODE contains the upper bits of vector register numbers (`s_set_vgpr_msb`; LLVM,
    /// Feature1024AddressableVGPRs).
    pub has_register_banks: bool,

    /// Binary encoding of instructions.
    pub microcode: Microcode,
    /// True if the instructions of GFX90A exist, for example loads to accumulation registers (LLVM,
    /// FeatureGFX90AInsts).
    pub has_gfx90a_instructions: bool,
    /// True if the instructions of GFX940 exist (LLVM, FeatureGFX940Insts).
    pub has_gfx940_instructions: bool,
    /// True if the instructions of GFX950 exist, for example scaled conversions (LLVM, FeatureGFX950Insts).
    pub has_gfx950_instructions: bool,
    /// True if an instruction can use a byte or a 16-bit half of a register as an operand ("SDWA").
    pub has_sdwa: bool,
    /// True if a 16-bit instruction can use either half of a register as an operand. VOP3 selects the half with
    /// `op_sel`, and the 32-bit encodings select it with the register number.
    pub selects_halves: bool,
    /// True if a 16-bit result clears the upper half of its register, except for some instructions (LLVM,
    /// `GCNSubtarget::zeroesHigh16BitsOfDest`).
    pub clears_upper_halves: bool,
    /// True if `v_cmpx` also writes its mask to a scalar register or VCC.
    pub cmpx_writes_scalar: bool,
    /// Encodings of `v_mul_legacy_f32` or its successor.
    pub legacy_multiply: LegacyMultiply,

    /// Counters of outstanding results.
    pub counters: WaitCounters,
    /// Scope bits of memory instructions.
    pub scope_bits: ScopeBits,
    /// True if the waves of a workgroup may use two caches that can be invalidated separately (`buffer_gl0_inv`,
    /// `buffer_gl1_inv`).
    pub has_two_caches: bool,
    /// Layout of descriptors. Architectures without images use only the layout of buffer descriptors.
    pub descriptors: Descriptors,
    /// True if images are supported, which HIP's arrays and textures need. Source: ROCr's `isa_has_image_support`.
    pub has_images: bool,
    /// True if a store to a typed buffer or image writes the first component to the components that the instruction
    /// does not name. Otherwise the store writes zeros there.
    pub repeats_missing_components: bool,
    /// True if the 32-bit vector offset from a scalar base is signed (LLVM, `hasSignedGVSOffset`).
    pub signed_vector_offsets: bool,
    /// True if the register and the constant in the offset of a scalar load are each aligned to 4 bytes before they are
    /// added.
    pub aligns_offset_parts: bool,
    /// True if `ds_append` and `ds_consume` add the upper half of M0 to the offset ("DS_APPEND").
    pub append_adds_m0: bool,
    /// Size of the groups of lanes within which `ds_permute_b32` can move values, in a wave of 64 lanes.
    pub permuted_lanes: usize,

    /// Largest absolute value, in revolutions, that `v_sin_f32` and `v_cos_f32` accept as operand.
    pub largest_angle: f32,
    /// True if the output modifiers `mul` and `div` scale results in every floating-point mode, even if denormals are
    /// enabled.
    pub scales_in_all_modes: bool,
    /// True if MODE.FP16_OVFL does not change the infinite result of a division by zero.
    pub overflow_spares_divisions: bool,
    /// True if a conversion that rounds down converts a NaN to the largest or smallest integer instead of 0.
    pub floors_nan_to_extremes: bool,
    /// True if `v_pk_add_f32` and similar instructions use the same 32 bits of a scalar source operand for both results
    /// (LLVM, `hasPKF32InstsReplicatingLower32BitsOfScalarInput`).
    pub packed_f32_repeats_scalars: bool,
    /// True if `v_pack_b32_f16` converts signalling NaNs to quiet ones.
    pub packs_quiet_nans: bool,
    /// True if `v_sat_pk_u8_i16` writes only one half of its destination register.
    pub sat_pk_writes_half: bool,
    /// True if `v_dot2_f32_f16` treats denormal source operands as zeros.
    pub dot2_f16_flushes: bool,
    /// True if `v_dot2_f32_bf16` adds the addend after the products.
    pub dot2_bf16_adds_last: bool,
    /// Formats of 8-bit floating-point numbers.
    pub float8: Float8,

    /// Family of matrix instructions.
    pub matrix: MatrixUnit,
    /// Order of additions in dense matrix instructions.
    pub matrix_sums: MatrixSums,
    /// True if matrix instructions for xf32 exist.
    pub has_xf32: bool,
    /// True if the field `blgp` of f64 matrix instructions selects the operands to negate (LLVM, `printBLGP`).
    pub negates_f64_matrices: bool,
    /// True if, in the larger sparse matrix instructions, the elements that a lane holds have consecutive values of k.
    pub sparse_in_runs: bool,
}
