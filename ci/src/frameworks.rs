//! Frameworks from PyPI that run on the emulated device: their packages and their cases.

mod table;

use std::path::Path;

use xshell::{Shell, cmd};

use crate::{STACK, TaskResult, build_program};

pub(crate) use self::table::table;

/// A framework from PyPI. The name of its Python environment, and the prefix of its cases in `cases/programs`, are
/// equal to its name.
pub(crate) struct Framework {
    pub name: &'static str,
    /// Python packages that the cases need. Packages that only the framework's own tests need are not included.
    pub packages: &'static [&'static str],
    /// Libraries of ROCm that the framework needs, named as in `--with`.
    with: Option<&'static str>,
    /// Python code that fails if the framework cannot use the release. The error message contains the cause.
    probe: &'static str,
    /// Architectures on which the cases run.
    gfx: &'static [&'static str],
    /// An older release on which the cases also run, with the architectures for that release.
    older: Option<(&'static str, &'static [&'static str])>,
    /// Cases that the gate runs on the first architecture. Empty if the libraries of the framework are too large for
    /// the gate; those of CuPy, for example, have 1.8 GB.
    sample: &'static [&'static str],
}

pub(crate) const FRAMEWORKS: &[Framework] = &[
    Framework {
        name: "triton",
        packages: &["triton==3.9.0", "numpy"],
        with: Some("triton"),
        probe: "from triton.backends.amd.driver import HIPUtils; HIPUtils()",
        // GFX11 and GFX12 are included because Triton's own compiler uses the upper halves of registers there. The
        // compilers of ROCm 7.2.4 and 6.4.3 do not.
        gfx: &["gfx1151", "gfx90a", "gfx1201", "gfx1200"],
        older: Some(("debian:6.4.3", &["gfx1151"])),
        sample: &["programs/triton-softmax", "programs/triton-atomics"],
    },
    Framework {
        name: "cupy",
        packages: &["cupy-rocm-7-0==14.2.0"],
        with: Some("cupy"),
        probe: "from cupy_backends.cuda.api import runtime",
        gfx: &["gfx90a", "gfx1151"],
        older: None,
        sample: &[],
    },
    Framework {
        name: "jax",
        packages: &[
            "jax==0.10.2",
            "jaxlib==0.10.2",
            "jax-rocm7-plugin==0.10.2",
            "jax-rocm7-pjrt==0.10.2",
        ],
        with: Some("jax"),
        probe: "import ctypes, jax_plugins.xla_rocm7 as p; ctypes.CDLL(p.__path__[0] + '/xla_rocm_plugin.so')",
        gfx: &["gfx90a", "gfx1151"],
        older: None,
        sample: &[],
    },
    Framework {
        name: "onnxruntime",
        packages: &["onnxruntime-rocm==1.22.2.post3", "onnx"],
        with: Some("onnxruntime"),
        probe: "import ctypes, onnxruntime as o; ctypes.CDLL(o.__path__[0] + '/capi/libonnxruntime_providers_rocm.so')",
        gfx: &["gfx90a", "gfx1100"],
        older: None,
        sample: &[],
    },
    Framework {
        name: "openmm",
        packages: &["openmm-hip-7==8.6.1", "numpy"],
        with: None,
        probe: "import openmm
for text in openmm.Platform.getPluginLoadFailures():
    if 'HIP.so' in text: raise OSError(text.split(': ', 1)[1])",
        gfx: &["gfx1151", "gfx90a"],
        older: None,
        sample: &[],
    },
    Framework {
        name: "iree",
        packages: &["iree-base-runtime==3.13.0", "iree-base-compiler==3.13.0", "numpy"],
        with: None,
        probe: "import iree.runtime; iree.runtime.get_device('hip')",
        gfx: &["gfx1151", "gfx90a"],
        older: None,
        sample: &[],
    },
    Framework {
        name: "hip-python",
        packages: &["rocm-bindings-hip==10.0.0.0.1.2", "numpy"],
        with: None,
        probe: "from rocm.bindings import hip; hip.hipGetDeviceProperties(0)",
        gfx: &["gfx1151", "gfx90a"],
        older: None,
        sample: &[],
    },
    Framework {
        name: "numba-hip",
        packages: &["numba-hip==0.2.1"],
        with: Some("dev"),
        probe: "import glob, os
os.environ['NUMBA_HIP_LIBCLANG_FILE'] = sorted(glob.glob('/usr/lib/x86_64-linux-gnu/libclang-[0-9]*.so.1'))[-1]
from numba import hip
def one(x): x[hip.grid(1)] = 1
hip.jit(one)[1, 1](hip.device_array(1))",
        gfx: &["gfx1151", "gfx90a"],
        older: None,
        sample: &[],
    },
];

pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    FRAMEWORKS.iter().map(|it| it.name)
}

/// Proves that every declared fault makes the cases of each framework fail.
pub(crate) fn all(sh: &Shell) -> TaskResult {
    let program = build_program(sh)?;
    for it in FRAMEWORKS {
        prepare_framework(sh, &program, it)?;
        let cases = format!("programs/{}-*", it.name);
        for (stack, gfx) in [(STACK, it.gfx)].into_iter().chain(it.older) {
            for gfx in gfx {
                cmd!(sh, "{program} prove {cases} --rocm {stack} --gfx {gfx} --device emulated")
                    .run()?;
            }
        }
    }
    Ok(())
}

/// Proves that every declared fault makes the framework cases of the gate fail.
pub(crate) fn sample(sh: &Shell) -> TaskResult {
    let program = build_program(sh)?;
    for it in FRAMEWORKS.iter().filter(|it| !it.sample.is_empty()) {
        prepare_framework(sh, &program, it)?;
        let (cases, gfx) = (it.sample, it.gfx[0]);
        cmd!(sh, "{program} prove {cases...} --rocm {STACK} --gfx {gfx} --device emulated")
            .run()?;
    }
    Ok(())
}

/// Prepares the framework called `name`. Does nothing if `name` is not the name of a framework.
pub(crate) fn prepare(sh: &Shell, name: &str) -> TaskResult {
    let Some(it) = FRAMEWORKS.iter().find(|it| it.name == name) else { return Ok(()) };
    prepare_framework(sh, &build_program(sh)?, it)
}

/// Fetches a release with the libraries that a framework needs, for some architectures.
fn fetch_libraries(
    sh: &Shell,
    program: &Path,
    it: &Framework,
    stack: &str,
    gfx: &str,
) -> TaskResult {
    let with = it.with.map(|with| ["--with", with]).into_iter().flatten();
    cmd!(sh, "{program} rocm fetch {stack} {with...} --gfx {gfx}").run()?;
    Ok(())
}

/// Fetches the libraries that a framework needs, and creates its Python environment.
fn prepare_framework(sh: &Shell, program: &Path, it: &Framework) -> TaskResult {
    let Framework { name, packages, gfx, older, .. } = *it;
    for (stack, gfx) in [(STACK, gfx)].into_iter().chain(older) {
        fetch_libraries(sh, program, it, stack, &gfx.join(","))?;
    }
    if cmd!(sh, "{program} env path {name}").quiet().ignore_stdout().ignore_stderr().run().is_err()
    {
        cmd!(sh, "{program} env create {name} {packages...}").run()?;
    }
    Ok(())
}
