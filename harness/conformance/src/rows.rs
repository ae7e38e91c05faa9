//! Tests of assumptions of the emulated device about hardware. Each test corresponds to a row of the table in
//! `docs/inferred-hardware.md`.

use crate::GROUP;

/// Test for a row of the table in `docs/inferred-hardware.md`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) name: &'static str,
    /// True if the result is unspecified, so that two devices, or two runs on one device, may differ.
    pub(crate) is_unspecified: bool,
    /// Number of workgroups (`groups`), and number of work-items per workgroup (`items`).
    pub(crate) groups: u32,
    pub(crate) items: u32,
    pub(crate) lds: u32,
    /// Statements of the kernel `probe(unsigned *o)`. `t` is the index of the work-item in its workgroup, and `i` is
    /// its index in the grid.
    body: String,
}

impl Row {
    /// Returns the HIP source code of the kernel, which writes one word for each work-item.
    pub(crate) fn kernel(&self) -> String {
        format!(
            "extern \"C\" __global__ void probe(unsigned *o) {{\n\
             extern __shared__ unsigned d[]; unsigned t = threadIdx.x, i = blockIdx.x * blockDim.x + t;\n\
             (void)d; (void)i;\n{}\n}}\n",
            self.body
        )
    }

    pub(crate) fn words(&self) -> usize {
        (self.groups * self.items) as usize
    }
}

const WAVE: u32 = GROUP as u32;

/// First statements of a kernel that accesses the LDS at several byte offsets: inside the 300 bytes that the kernel
/// requests, past these bytes, and past the granule in which hardware allocates LDS.
const PAST_THE_LDS: &str = "const unsigned at[8] = {0, 296, 2048, 4096, 16384, 32768, 65280, 1u << 20};\n\
    for (unsigned k = t; k < 75; k += blockDim.x) d[k] = 0x1000 + k;\n__syncthreads();\n\
    volatile __attribute__((address_space(3))) unsigned *p = (__attribute__((address_space(3))) unsigned *)d;\n";

pub(crate) fn rows() -> Vec<Row> {
    let exact = |name, lds, body: String| Row {
        name,
        is_unspecified: false,
        groups: 1,
        items: WAVE,
        lds,
        body,
    };
    let lanes = |what: &str| format!("int got = 7; if (t % 3) got = {what}; o[t] = got;");
    vec![
        exact(
            "LDS past the requested size: reads",
            300,
            format!("{PAST_THE_LDS} o[t] = p[at[t % 8] / 4];"),
        ),
        exact(
            "LDS past the requested size: writes",
            300,
            format!(
                "{PAST_THE_LDS} if (t % 8 > 1) p[at[t % 8] / 4] = 0xbad; __syncthreads(); o[t] = p[t];"
            ),
        ),
        exact("denormals of f32, f16 and f64 as MODE says", 0, denormals()),
        exact(
            "lanes that do not run, in ds_bpermute",
            0,
            lanes("__builtin_amdgcn_ds_bpermute((t * 28) & 0xffc, 0x100 + t)"),
        ),
        exact(
            "lanes that do not run, in ds_permute",
            0,
            lanes("__builtin_amdgcn_ds_permute((t * 28) & 0xffc, 0x100 + t)"),
        ),
        exact(
            "lanes that do not run, in ds_swizzle",
            0,
            lanes(
                "__builtin_amdgcn_ds_swizzle(0x100 + t, 0x401f) * 4096 + __builtin_amdgcn_ds_swizzle(0x100 + t, 0x8055)",
            ),
        ),
        Row {
            name: "the order in which the waves of a workgroup come",
            is_unspecified: true,
            groups: 1,
            items: 8 * WAVE,
            lds: 4,
            body: "if (t == 0) d[0] = 0;\n__syncthreads();\nunsigned n = 0;\n\
                if (t % warpSize == 0) n = atomicAdd(d, 1u);\no[t] = __shfl((int)n, 0);"
                .to_owned(),
        },
        Row {
            name: "the order in which workgroups come",
            is_unspecified: true,
            groups: 64,
            items: WAVE,
            lds: 0,
            body: "__shared__ unsigned n;\nif (t == 0) n = atomicAdd(o + 64 * 64, 1u);\n__syncthreads();\no[i] = n;"
                .to_owned(),
        },
    ]
}

/// Returns HIP code that multiplies and adds denormals with each of the sixteen values of `MODE.FP_DENORM`. After each
/// value, the code restores the field.
fn denormals() -> String {
    let mut text = "unsigned r = 0;\n".to_owned();
    for mode in 0..16 {
        text += &format!(
            "{{ unsigned a, h; unsigned long long e; asm volatile(\
             \"s_getreg_b32 s20, hwreg(1, 4, 4)\\n s_setreg_imm32_b32 hwreg(1, 4, 4), {mode}\\n s_nop 7\\n \
             v_mul_f32 %0, 1.0, %3\\n v_pk_add_f16 %1, %4, %4\\n v_add_f64 %2, %5, %5\\n s_nop 7\\n \
             s_setreg_b32 hwreg(1, 4, 4), s20\\n s_nop 7\" \
             : \"=&v\"(a), \"=&v\"(h), \"=&v\"(e) : \"v\"(0x00012345u), \"v\"(0x02000001u), \"v\"(3ull) : \"s20\");\n\
             if (t == 4 * {mode}) r = a;\nif (t == 4 * {mode} + 1) r = h;\n\
             if (t == 4 * {mode} + 2) r = (unsigned)e;\nif (t == 4 * {mode} + 3) r = (unsigned)(e >> 32); }}\n"
        );
    }
    text + "o[t] = r;"
}
