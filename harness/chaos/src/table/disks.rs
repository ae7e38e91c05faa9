//! Tests the command with full, read-only, missing and damaged folders. The command must never report their effects as
//! failures of ROCm.

use std::fs;
use std::path::Path;

use crate::{
    row::{Row, row},
    setup::RunSetup,
    shared_tools::KERNEL,
};

/// Allowed answers if the worker could not use a folder to which it writes.
const DISK: &[&str] = &["no-verdict no-verdict:disk"];
const NOTHING: &[&str] = &["no-verdict *"];
const STOPPED: &[&str] = &["stopped"];
const WORKS: &[&str] = &["pass"];

pub(crate) const ROWS: &[Row] = &[
    row(
        "disk/temporary-folder-full",
        |s| {
            s.mounts("mount -t tmpfs -o size=4k none $ROW/tmp; dd if=/dev/zero of=$ROW/tmp/filler bs=4k 2>/dev/null || :")
        },
        STOPPED,
    ),
    row(
        "disk/temporary-folder-small",
        |s| s.mounts("mount -t tmpfs -o size=64k none $ROW/tmp"),
        STOPPED,
    ),
    row(
        "disk/temporary-folder-without-inodes",
        |s| s.mounts("mount -t tmpfs -o nr_inodes=1 none $ROW/tmp"),
        STOPPED,
    ),
    row(
        "disk/temporary-folder-with-few-inodes",
        |s| s.mounts("mount -t tmpfs -o nr_inodes=4 none $ROW/tmp"),
        NOTHING,
    ),
    row(
        "disk/temporary-folder-few-inodes-wrong-data",
        |s| {
            s.mounts("mount -t tmpfs -o nr_inodes=5 none $ROW/tmp");
            fault(s)
        },
        DISK,
    ),
    row(
        "disk/temporary-folder-read-only",
        |s| s.mounts("mount --bind $ROW/tmp $ROW/tmp; mount -o remount,ro,bind $ROW/tmp"),
        STOPPED,
    ),
    row(
        "disk/cache-full",
        |s| {
            s.runs(KERNEL);
            full(s, "cache", 200)
        },
        DISK,
    ),
    row(
        "disk/cache-full-at-start",
        |s| {
            s.own_cache();
            s.mounts("mount -t tmpfs -o size=4k,nr_inodes=2 none $ROW/cache")
        },
        STOPPED,
    ),
    row(
        "disk/cache-noexec",
        |s| {
            s.own_cache();
            s.mounts("mount -t tmpfs -o noexec none $ROW/cache")
        },
        STOPPED,
    )
    .says(&["mounted noexec", "XDG_CACHE_HOME"]),
    row(
        "disk/cache-without-inodes",
        |s| {
            s.runs(KERNEL);
            code(s, "mount -t tmpfs -o nr_inodes=5 none $CODE; mkdir $CODE/tmp")
        },
        DISK,
    ),
    row(
        "disk/code-cache-full",
        |s| {
            s.runs(KERNEL);
            code(s, "mount -t tmpfs -o size=8k none $CODE; mkdir $CODE/tmp")
        },
        DISK,
    ),
    row(
        "disk/code-cache-read-only",
        |s| {
            s.runs(KERNEL);
            code(s, "mkdir -p $CODE/tmp; mount --bind $CODE $CODE; mount -o remount,ro,bind $CODE")
        },
        DISK,
    ),
    row(
        "disk/compilers-folder-full",
        |s| {
            s.runs(KERNEL);
            code(s, "mkdir -p $CODE/tmp; mount -t tmpfs -o size=4k none $CODE/tmp")
        },
        DISK,
    ),
    row(
        "disk/compilers-folder-without-inodes",
        |s| {
            s.runs(KERNEL);
            code(s, "mkdir -p $CODE/tmp; mount -t tmpfs -o nr_inodes=1 none $CODE/tmp")
        },
        DISK,
    ),
    row(
        "disk/compilers-folder-small",
        |s| {
            s.runs(KERNEL);
            code(s, "mkdir -p $CODE/tmp; mount -t tmpfs -o size=100k none $CODE/tmp")
        },
        DISK,
    ),
    row(
        "disk/compilers-folder-read-only",
        |s| {
            s.runs(KERNEL);
            code(
                s,
                "mkdir -p $CODE/tmp; mount --bind $CODE/tmp $CODE/tmp; mount -o remount,ro,bind $CODE/tmp",
            )
        },
        DISK,
    ),
    row(
        "disk/compilers-cache-full",
        |s| {
            s.runs(KERNEL);
            code(
                s,
                "mkdir -p $CODE/tmp $CODE/comgr; mount -t tmpfs -o size=4k,nr_inodes=2 none $CODE/comgr",
            )
        },
        WORKS,
    ),
    row(
        "disk/home-read-only",
        |s| s.mounts("mount --bind $ROW/home $ROW/home; mount -o remount,ro,bind $ROW/home"),
        &["pass"],
    ),
    row(
        "disk/work-folder-read-only",
        |s| s.mounts("mount --bind $ROW/work $ROW/work; mount -o remount,ro,bind $ROW/work"),
        &["refused"],
    ),
    row(
        "disk/record-full",
        |s| {
            let folder = s.folder.join("work/small");
            fs::create_dir(&folder).expect("the folder is writable");
            s.mounts("mount -t tmpfs -o size=4k none $ROW/work/small; dd if=/dev/zero of=$ROW/work/small/filler bs=4k count=1 2>/dev/null || :");
            s.records_to(folder.join("record.jsonl"))
        },
        STOPPED,
    )
    .alone(),
    row("disk/no-proc", |s| s.mounts("mount -t tmpfs none /proc"), STOPPED).alone(),
    row(
        "disk/no-shared-memory",
        |s| s.mounts("mount -t tmpfs -o size=4k,nr_inodes=1 none /dev/shm || exit 0"),
        WORKS,
    ),
    row(
        "disk/cache-vanishes",
        |s| {
            s.runs(KERNEL);
            s.warm_cache();
            s.launcher(&format!("rm -rf {}/cache/rocrepro/code\nexec \"$@\"", s.folder.display()))
        },
        DISK,
    ),
    row(
        "disk/cold-cache-vanishes",
        |s| {
            s.runs(KERNEL);
            s.own_cache();
            s.launcher(&format!("rm -rf {}/cache/rocrepro/code\nexec \"$@\"", s.folder.display()))
        },
        DISK,
    ),
    row(
        "disk/device-vanishes",
        |s| {
            s.warm_cache();
            s.launcher(&format!("rm -rf {}/cache/rocrepro/device\nexec \"$@\"", s.folder.display()))
        },
        NOTHING,
    ),
    row(
        "disk/spool-holds-a-link-for-bytes",
        |s| planted_link(s, "link_bytes"),
        &["fail wrong-data:*"],
    )
    .hides(&["50 57"])
    .alone(),
    row(
        "disk/spool-is-a-link",
        |s| planted_link(s, "link_folder"),
        &["fail wrong-data:*", "no-verdict no-verdict:disk"],
    )
    .hides(&["50 57"])
    .alone(),
    row("disk/spool-vanishes", |s| s.trouble("remove_spool@setup"), DISK),
    row(
        "disk/spool-vanishes-with-wrong-data",
        |s| {
            fault(s);
            s.trouble("remove_spool@setup")
        },
        DISK,
    ),
    row(
        "disk/temporary-folder-vanishes",
        |s| s.launcher(&format!("rm -rf {}/tmp/*\nexec \"$@\"", s.folder.display())),
        NOTHING,
    ),
    row("cache/empty-kernels", |s| damage(s, |path| fs::write(path, b"")), &["pass"]),
    row(
        "cache/garbage-kernels",
        |s| damage(s, |path| fs::write(path, b"no code object")),
        &["pass"],
    ),
    row(
        "cache/half-kernels",
        |s| {
            damage(s, |path| {
                let all = fs::read(path)?;
                fs::write(path, &all[..all.len() / 2])
            })
        },
        &["pass"],
    ),
    row(
        "cache/kernels-with-a-wrong-bit",
        |s| {
            damage(s, |path| {
                let mut all = fs::read(path)?;
                let at = all.len() / 2;
                all[at] ^= 4;
                fs::write(path, all)
            })
        },
        &["pass"],
    ),
    row(
        "cache/kernels-with-wrong-bytes",
        |s| {
            damage(s, |path| {
                let mut all = fs::read(path)?;
                all.iter_mut().skip(64).step_by(7).for_each(|b| *b ^= 255);
                fs::write(path, all)
            })
        },
        &["pass"],
    ),
    row("cache/swapped-kernels", swap, &["pass"]),
    row(
        "cache/longer-kernels",
        |s| {
            damage(s, |path| {
                let mut all = fs::read(path)?;
                all.extend([0; 4096]);
                fs::write(path, all)
            })
        },
        &["pass"],
    ),
    row(
        "cache/folders-for-kernels",
        |s| {
            damage(s, |path| {
                fs::remove_file(path)?;
                fs::create_dir(path)
            })
        },
        WORKS,
    ),
    row(
        "cache/links-for-kernels",
        |s| {
            damage(s, |path| {
                fs::remove_file(path)?;
                std::os::unix::fs::symlink("/dev/zero", path)
            })
        },
        WORKS,
    ),
    row(
        "cache/garbage-of-the-compiler",
        |s| compiler(s, |path| fs::write(path, b"damaged")),
        WORKS,
    ),
    row("cache/empty-files-of-the-compiler", |s| compiler(s, |path| fs::write(path, b"")), WORKS),
    row("cache/half-files-of-the-compiler", |s| compiler(s, halve), WORKS),
    row("cache/wrong-bytes-of-the-compiler", |s| compiler(s, scatter), WORKS),
    row(
        "cache/folders-for-files-of-the-compiler",
        |s| {
            compiler(s, |path| {
                fs::remove_file(path)?;
                fs::create_dir(path)
            })
        },
        WORKS,
    ),
    row(
        "cache/half-a-device",
        |s| {
            device(s, |path| {
                let all = fs::read(path)?;
                fs::write(path, &all[..all.len() / 2])
            })
        },
        WORKS,
    ),
    // The command contains the library of the emulated device, and installs it again.
    row("cache/empty-device", |s| device(s, |path| fs::write(path, b"")), WORKS),
    row(
        "cache/garbage-for-the-device",
        |s| device(s, |path| fs::write(path, b"no library")),
        WORKS,
    ),
    row(
        "cache/folder-for-the-device",
        |s| {
            device(s, |path| {
                fs::remove_file(path)?;
                fs::create_dir(path)
            })
        },
        STOPPED,
    ),
    row(
        "cache/is-a-file",
        |s| {
            s.own_cache();
            s.work("file", b"");
            let path = s.folder.join("work/file");
            s.variable("XDG_CACHE_HOME", path)
        },
        STOPPED,
    ),
];

/// Injects a fault, so that the worker has wrong bytes to save.
fn fault(setup: &mut RunSetup<'_>) {
    setup.option("--fault", "copy.zero");
}

/// Makes a library replace the file in which the worker saved the wrong bytes (`action` is `link_bytes`), or the folder
/// of that file (`link_folder`), with a symbolic link to another place.
fn planted_link(setup: &mut RunSetup<'_>, action: &str) {
    fault(setup);
    let secret = crate::setup::write_file(&setup.folder.join("work/secrets/secret"), b"PW");
    // Before it does so, the library copies the saved bytes into the folder of the other file.
    setup.outputs.extend(secret.parent().map(Path::to_owned));
    setup.trouble(&format!("{action}={}@bye", secret.display()));
}

/// Puts the folder `folder` of the run, with a cache that contains the emulated device, on a file system with only
/// `kilobytes` KB free.
fn full(setup: &mut RunSetup<'_>, folder: &str, kilobytes: u32) {
    setup.own_cache();
    let device = setup.tools.cache().join("rocrepro/device");
    let script = format!(
        "mount -t tmpfs -o size=900m none $ROW/{folder}; mkdir -p $ROW/{folder}/rocrepro; cp -r {} $ROW/{folder}/rocrepro/device; \
         used=$(du -sk $ROW/{folder} | cut -f1); mount -o remount,size=$((used + {kilobytes}))k $ROW/{folder}",
        device.display()
    );
    setup.mounts(&script);
}

/// Runs a shell script before the command starts. In the script, `$CODE` is the empty cache of compiled kernels that
/// the command will use.
fn code(setup: &mut RunSetup<'_>, script: &str) {
    setup.own_cache();
    setup.mounts(&format!("CODE=$ROW/cache/rocrepro/code; mkdir -p $CODE; {script}"));
}

fn files(folder: &Path, ending: &str) -> Vec<std::path::PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut files: Vec<_> = entries
        .map(|entry| entry.path())
        .filter(|path| path.to_string_lossy().ends_with(ending))
        .collect();
    files.sort();
    files
}

/// Damages every compiled kernel in a filled cache, by calling `how` with the kernel's path.
fn damage(setup: &mut RunSetup<'_>, how: fn(&Path) -> std::io::Result<()>) {
    setup.runs(KERNEL);
    let code = setup.warm_cache().join("code");
    let kernels = files(&code, ".co");
    assert!(!kernels.is_empty(), "a warm cache has compiled kernels in {}", code.display());
    kernels.iter().for_each(|path| how(path).expect("the file is writable"));
}

/// Gives each compiled kernel in the cache the file name of another one.
fn swap(setup: &mut RunSetup<'_>) {
    setup.runs(KERNEL);
    let code = setup.warm_cache().join("code");
    let kernels = files(&code, ".co");
    let contents: Vec<Vec<u8>> =
        kernels.iter().map(|path| fs::read(path).expect("the file exists")).collect();
    assert!(kernels.len() > 1, "a warm cache has several compiled kernels");
    for (n, path) in kernels.iter().enumerate() {
        fs::write(path, &contents[(n + 1) % contents.len()]).expect("the file is writable");
    }
}

/// Damages the files in the cache of HIP's compiler, by calling `how` with their paths.
fn compiler(setup: &mut RunSetup<'_>, how: fn(&Path) -> std::io::Result<()>) {
    setup.runs(KERNEL);
    let code = setup.warm_cache().join("code");
    for path in files(&code, ".co") {
        fs::remove_file(path).expect("the file is writable");
    }
    let kept = files(&code.join("comgr"), "");
    assert!(!kept.is_empty(), "HIP's compiler keeps what it compiled");
    kept.iter().for_each(|path| how(path).expect("the file is writable"));
}

fn halve(path: &Path) -> std::io::Result<()> {
    let all = fs::read(path)?;
    fs::write(path, &all[..all.len() / 2])
}

/// Changes bytes at many positions in a file.
fn scatter(path: &Path) -> std::io::Result<()> {
    let mut all = fs::read(path)?;
    all.iter_mut().skip(64).step_by(7).for_each(|byte| *byte ^= 255);
    fs::write(path, all)
}

/// Damages the emulated device in a filled cache, by calling `how` with the path of its library.
fn device(setup: &mut RunSetup<'_>, how: fn(&Path) -> std::io::Result<()>) {
    let folder = setup.warm_cache().join("device");
    for build in files(&folder, "") {
        for library in files(&build, ".so.1") {
            how(&library).expect("the file is writable");
        }
    }
}
