//! Tests the command on stacks whose libraries are fake, damaged or misbehaving.

use crate::{
    changed_stack::Change,
    row::{Row, row},
    setup::{RunSetup, write_file},
};

const NOTHING: &[&str] = &["no-verdict *"];
const REFUSED: &[&str] = &["refused"];

pub(crate) const ROWS: &[Row] = &[
    row("runtime/shim-that-does-nothing", |s| s.shim("sleep=1@hipInit"), &["pass"]),
    row("runtime/init-fails", |s| s.shim("fail=100@hipInit"), NOTHING),
    row(
        "runtime/init-fails-in-an-unknown-way",
        |s| s.shim("fail=999@hipInit"),
        &["fail api-error:hipInit*"],
    ),
    row("runtime/init-crashes", |s| s.shim("segv@hipInit"), &["fail crash:*"]),
    row("runtime/init-aborts", |s| s.shim("abort@hipInit"), &["fail crash:*"]),
    row("runtime/init-exits", |s| s.shim("exit=0@hipInit"), &["fail library-exit:*"]),
    row(
        "runtime/init-hangs",
        |s| {
            s.hangs();
            s.shim("hang@hipInit")
        },
        &["fail hang:*"],
    ),
    row("runtime/constructor-crashes", |s| s.shim("segv@constructor"), &["fail crash:*"]),
    row("runtime/constructor-exits", |s| s.shim("exit=0@constructor"), &["fail library-exit:*"]),
    row(
        "runtime/constructor-hangs",
        |s| {
            s.hangs();
            s.shim("hang@constructor")
        },
        &["fail hang:*"],
    ),
    row(
        "runtime/device-count-fails",
        |s| s.shim("fail=999@hipGetDeviceCount"),
        &["fail api-error:hipGetDeviceCount*"],
    ),
    row("runtime/device-count-crashes", |s| s.shim("segv@hipGetDeviceCount"), &["fail crash:*"]),
    row("runtime/version-fails", |s| s.shim("fail=1@hipRuntimeGetVersion"), &["pass"]),
    row(
        "runtime/properties-fail",
        |s| s.shim("fail=1@hipGetDevicePropertiesR0600"),
        &["fail api-error:hipGetDeviceProperties:hipErrorInvalidValue"],
    ),
    row(
        "runtime/properties-crash",
        |s| s.shim("segv@hipGetDevicePropertiesR0600"),
        &["fail crash:*"],
    ),
    row("runtime/malloc-fails", |s| s.shim("fail=2@hipMalloc"), &["fail api-error:hipMalloc:*"]),
    row("runtime/malloc-crashes", |s| s.shim("segv@hipMalloc"), &["fail crash:hipMalloc"]),
    row("runtime/malloc-exits", |s| s.shim("exit=0@hipMalloc"), &["fail library-exit:hipMalloc"]),
    row(
        "runtime/malloc-hangs",
        |s| {
            s.hangs();
            s.shim("hang@hipMalloc")
        },
        &["fail hang:hipMalloc"],
    ),
    row("runtime/copy-fails", |s| s.shim("fail=1@hipMemcpy"), &["fail api-error:hipMemcpy:*"]),
    // One step of the plan makes several HIP calls here. The report must name the call that failed.
    row(
        "runtime/get-function-fails",
        |s| {
            s.runs(crate::shared_tools::KERNEL);
            s.shim("fail=500@hipModuleGetFunction")
        },
        &["fail api-error:hipModuleGetFunction:hipErrorNotFound"],
    ),
    row(
        "runtime/free-fails",
        |s| s.shim("fail=1@hipFree"),
        &["fail api-error:hipFree:hipErrorInvalidValue"],
    ),
    row("runtime/free-crashes", |s| s.shim("segv@hipFree"), &["fail teardown-crash"]),
    row("runtime/destructor-crashes", |s| s.shim("segv@destructor"), &["fail teardown-crash"])
        .alone(),
    row(
        "runtime/destructor-exits-well",
        |s| s.shim("_exit=0@destructor"),
        &["fail teardown-crash"],
    ),
    row(
        "runtime/other-version",
        |s| {
            s.shim("sleep=1@hipInit");
            s.worker_variable("CHAOS_VERSION=50200000")
        },
        &["pass"],
    ),
    row("runtime/second-in-teardown", |s| second_runtime(s, "teardown"), &["no-verdict *"]),
    // The worker makes no HIP calls after its last event. Therefore a library that is loaded afterwards cannot have
    // executed any of the calls.
    row("runtime/second-after-bye", |s| second_runtime(s, "bye"), &["pass"]),
    row("runtime/second-in-body", |s| second_runtime(s, "body"), &["no-verdict *"]),
    row(
        "runtime/preloaded-stub",
        |s| {
            let stub = preloaded(s);
            s.worker_variable(&stub)
        },
        NOTHING,
    )
    .alone(),
    row(
        "runtime/stub-poses-as-rocm",
        |s| {
            let stub = Change::Copy(s.tools.stub.clone());
            hip(s, stub)
        },
        NOTHING,
    )
    .alone(),
    row(
        "runtime/empty-file",
        |s| hip(s, Change::Content(Vec::new())),
        &["fail api-error:dlopen:libamdhip64"],
    ),
    row(
        "runtime/text-file",
        |s| hip(s, Change::Content(b"INPUT(-lc)\n".to_vec())),
        &["fail api-error:dlopen:libamdhip64"],
    ),
    row("runtime/folder", |s| hip(s, Change::Folder), REFUSED),
    row("runtime/half-a-file", |s| hip(s, Change::Half), &["fail crash:*"]),
    row("runtime/missing", |s| s.overlay(&[("libamdhip64*", Change::Remove)]), &["refused"]),
    row("runtime/dangling-link", |s| hip(s, Change::Link("/nonexistent/library".into())), REFUSED),
    row("runtime/link-to-itself", |s| hip(s, Change::Link("libamdhip64.so.7".into())), REFUSED),
    row(
        "runtime/without-libstdcxx",
        |s| s.overlay(&[("libstdc++*", Change::Remove)]),
        &["fail api-error:dlopen:libamdhip64"],
    ),
    row("runtime/without-comgr", |s| s.overlay(&[("libamd_comgr*", Change::Remove)]), NOTHING),
    row("runtime/without-libc", |s| s.overlay(&[("libc.so.6", Change::Remove)]), NOTHING),
    row(
        "runtime/damaged-loader",
        |s| s.overlay(&[("ld-linux-x86-64.so.2", Change::Content(b"no".to_vec()))]),
        NOTHING,
    ),
    row("runtime/prefix-with-stub", |s| prefix(s, Some("7.2.4\n")), NOTHING).alone(),
    row("runtime/prefix-without-version", |s| prefix(s, None), NOTHING).alone(),
    row("runtime/prefix-with-nonsense-version", |s| prefix(s, Some("\u{1b}[31mseven")), NOTHING)
        .alone(),
    row(
        "library/damaged-hiprtc",
        |s| damaged(s, "libhiprtc", "libhiprtc.so.7", crate::shared_tools::KERNEL),
        &["fail api-error:dlopen:libhiprtc"],
    ),
    row(
        "library/damaged-hiprand",
        |s| damaged(s, "libhiprand.so", "libhiprand.so.1", RAND_TRIALS),
        &["fail api-error:dlopen:libhiprand"],
    )
    .alone(),
    row(
        "library/missing-hiprand",
        |s| {
            s.runs(RAND_TRIALS);
            s.overlay(&[("libhiprand.so*", Change::Remove)])
        },
        &["skip *"],
    )
    .alone(),
    row(
        "library/unresolved-hiprand",
        |s| {
            s.runs(RAND_TRIALS);
            s.overlay(&[("librocrand.so*", Change::Remove)])
        },
        &["fail api-error:dlopen:libhiprand"],
    )
    .alone(),
    row(
        "library/damaged-rocblas",
        |s| damaged(s, "librocblas.so", "librocblas.so.5", BLAS_TRIALS),
        &["fail api-error:dlopen:librocblas"],
    )
    .alone(),
    row(
        "library/missing-rocblas",
        |s| {
            s.runs(BLAS_TRIALS);
            s.overlay(&[("librocblas.so*", Change::Remove)])
        },
        &["skip *"],
    )
    .alone(),
    row(
        "library/damaged-hipblaslt",
        |s| damaged(s, "libhipblaslt.so", "libhipblaslt.so.1", BLASLT_TRIAL),
        &["fail api-error:dlopen:libhipblaslt"],
    ),
];

const RAND_TRIALS: &str = "rng/*";
const BLAS_TRIALS: &str = "gemm/rocblas*";
const BLASLT_TRIAL: &str = "gemm/blaslt-handle";

fn hip(setup: &mut RunSetup<'_>, change: Change) {
    setup.overlay(&[("libamdhip64*", Change::Remove), ("libamdhip64.so.7", change)]);
}

fn damaged(setup: &mut RunSetup<'_>, pattern: &str, name: &str, trial: &str) {
    setup.runs(trial);
    let all = format!("{pattern}*");
    setup.overlay(&[(&all, Change::Remove), (name, Change::Content(b"no library".to_vec()))]);
}

/// Makes the worker load a second libamdhip64, from another path, at the given point of its execution.
fn second_runtime(setup: &mut RunSetup<'_>, point: &str) {
    let path = write_file(
        &setup.folder.join("tools/other/libamdhip64.so.6"),
        &std::fs::read(&setup.tools.stub).unwrap_or_default(),
    );
    setup.trouble(&format!("load={}@{point}", path.display()));
}

fn preloaded(setup: &mut RunSetup<'_>) -> String {
    let stub = std::fs::read(&setup.tools.stub).unwrap_or_default();
    let path = write_file(&setup.folder.join("tools/other/libamdhip64.so.7"), &stub);
    format!("LD_PRELOAD={}", path.display())
}

/// Creates a folder that imitates /opt/rocm. It contains only a libamdhip64 whose functions do nothing.
fn prefix(setup: &mut RunSetup<'_>, version: Option<&str>) {
    let root = setup.folder.join("prefix");
    let stub = std::fs::read(&setup.tools.stub).unwrap_or_default();
    write_file(&root.join("lib/libamdhip64.so.7"), &stub);
    if let Some(version) = version {
        write_file(&root.join(".info/version"), version.as_bytes());
    }
    setup.stack(root);
}
