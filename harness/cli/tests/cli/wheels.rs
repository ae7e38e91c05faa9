//! Tests Python packages that contain ROCm, such as the wheels of PyTorch and TheRock. The tests make their wheels from
//! the libraries of the stack.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use object::Object as _;

use crate::{common::output_text, environments::python_makes_environments, exec::namespaces};

/// Program that imports the package in a Python environment and uses the HIP runtime in it.
const USES: &str = "
import ctypes, importlib.util, sys
layout = next(name for name in ('torch', '_rocm_sdk_core') if importlib.util.find_spec(name))
hip = importlib.import_module(layout).HIP
count = ctypes.c_int(-1)
status = hip.hipGetDeviceCount(ctypes.byref(count))
";

/// Program that loads the HSA runtime in the package by its path, which LD_PRELOAD and LD_LIBRARY_PATH cannot redirect.
const GOES_PAST: &str = "
import glob, os
own, = glob.glob(os.path.join(os.path.dirname(importlib.import_module(layout).__file__), 'lib', 'libhsa-runtime64.so*'))
ctypes.CDLL(own)
";

/// Build id that the tests write into the HIP runtime of a wheel.
const BUILD_ID: &str = "abababababababababababababababababababab";

/// The way in which a wheel arranges its libraries.
struct Layout {
    package: &'static str,
    hip: &'static str,
    hsa: &'static str,
    /// Linker options that set the search path in the libraries.
    tags: &'static str,
    /// True if the HSA runtime has a function of a later release, which another library needs.
    newer: bool,
}

const TORCH: Layout = Layout {
    package: "torch",
    hip: "libamdhip64.so",
    hsa: "libhsa-runtime64.so",
    tags: "--disable-new-dtags",
    newer: false,
};

const THE_ROCK: Layout = Layout {
    package: "_rocm_sdk_core",
    hip: "libamdhip64.so.7",
    hsa: "libhsa-runtime64.so.1",
    tags: "--enable-new-dtags",
    newer: false,
};

const NEWER: Layout = Layout { newer: true, ..TORCH };

impl Layout {
    fn write(&self, folder: &Path, stack: &Path) {
        let package = folder.join(self.package);
        let (lib, made) = (package.join("lib"), folder.join("made"));
        fs::create_dir_all(&lib).unwrap();
        fs::create_dir_all(&made).unwrap();
        let of_stack =
            |name: &str| fs::read(stack.join("usr/lib/x86_64-linux-gnu").join(name)).unwrap();
        let mut hip = of_stack("libamdhip64.so.7");
        let id = object::File::parse(&*hip).unwrap().build_id().unwrap().unwrap().to_vec();
        replace(&mut hip, &id, &[0xab; 20]);
        // Libraries in PyTorch's wheels name their dependencies without versions.
        replace(&mut hip, b"\0libhsa-runtime64.so.1\0", format!("\0{}\0", self.hsa).as_bytes());
        fs::write(lib.join(self.hip), hip).unwrap();
        let (call, export) = match self.newer {
            true => (
                "int hsa_of_a_later_release(void);",
                "int hsa_of_a_later_release(void) { return 0; }",
            ),
            false => ("", ""),
        };
        if !self.newer {
            fs::write(lib.join(self.hsa), of_stack("libhsa-runtime64.so.1")).unwrap();
        }
        let body = if self.newer { "return hsa_of_a_later_release();" } else { "return 0;" };
        let script = "set -e\n\
            echo 'int nothing;' >empty.c; echo \"$4 int uses(void) { $5 }\" >uses.c; echo \"$6\" >hsa.c; echo 'ROCR_1 { global: hsa_*; };' >versions\n\
            cc -shared -Wl,-soname,$1 -o made/$1 empty.c\n\
            cc -shared -fPIC -Wl,-soname,$2,--version-script,versions -o made/$2 hsa.c\n\
            cc -shared -fPIC -o $3/libuses.so uses.c -Wl,--no-as-needed made/$1 made/$2 -Wl,$7,-rpath,'$ORIGIN'\n\
            test -e $3/$2 || cp made/$2 $3/$2\n";
        let lib_within = format!("{}/lib", self.package);
        let mut sh = Command::new("sh");
        sh.args([
            "-c",
            script,
            "sh",
            self.hip,
            self.hsa,
            &lib_within,
            call,
            body,
            export,
            self.tags,
        ]);
        assert!(sh.current_dir(folder).status().unwrap().success());
        let init = format!(
            "import ctypes, os\nlib = os.path.join(os.path.dirname(__file__), 'lib')\n\
             ctypes.CDLL(os.path.join(lib, 'libuses.so'), ctypes.RTLD_GLOBAL)\nHIP = ctypes.CDLL(os.path.join(lib, '{}'))\n",
            self.hip
        );
        fs::write(package.join("__init__.py"), init).unwrap();
    }

    fn environment(&self, folder: &Path, stack: &Path) -> PathBuf {
        let made =
            Command::new("python3").args(["-m", "venv", "--without-pip"]).arg(folder).status();
        assert!(made.unwrap().success());
        let python = fs::read_dir(folder.join("lib")).unwrap().flatten().next().unwrap();
        self.write(&python.path().join("site-packages"), stack);
        folder.to_owned()
    }

    fn wheel(&self, folder: &Path, stack: &Path) -> String {
        self.write(folder, stack);
        let info = "torch-1.0.dist-info";
        fs::create_dir(folder.join(info)).unwrap();
        for (name, text) in [
            ("METADATA", "Metadata-Version: 2.1\nName: torch\nVersion: 1.0\n"),
            ("WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"),
            ("RECORD", ""),
        ] {
            fs::write(folder.join(info).join(name), text).unwrap();
        }
        let file = "torch-1.0-py3-none-any.whl";
        let mut zip = Command::new("python3");
        zip.args(["-m", "zipfile", "-c", file, self.package, info]).current_dir(folder);
        assert!(zip.status().unwrap().success());
        folder.join(file).display().to_string()
    }
}

/// Replaces each occurrence of `from`. If `to` is shorter, it is padded with zero bytes.
fn replace(file: &mut [u8], from: &[u8], to: &[u8]) {
    let mut to = to.to_vec();
    to.resize(from.len(), 0);
    let places: Vec<_> = memchr::memmem::find_iter(file, from).collect();
    assert!(!places.is_empty());
    for at in places {
        file[at..at + to.len()].copy_from_slice(&to);
    }
}

/// A folder for the cache and the files of the test, and the path of the stack.
struct World {
    folder: tempfile::TempDir,
    stack: PathBuf,
}

impl World {
    fn new() -> World {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_rocrepro"));
        let output = command.args(["rocm", "path", "debian:7.2.4"]).output().unwrap();
        let stack = String::from_utf8(output.stdout).unwrap().trim_end().into();
        World { folder, stack }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn environment(&self, name: &str, layout: &Layout) -> String {
        layout.environment(&self.at(name), &self.stack).display().to_string()
    }

    fn run(&self, command: &str, arguments: &[&str]) -> Output {
        let mut program = Command::new(env!("CARGO_BIN_EXE_rocrepro"));
        program.arg(command).current_dir(&self.folder);
        if command != "env" {
            program
                .arg("--rocm")
                .arg(&self.stack)
                .args(["--device", "emulated", "--gfx", "gfx1151"]);
        }
        program.env("XDG_CACHE_HOME", self.folder.path()).env("PIP_NO_INDEX", "1");
        program.args(arguments).stdin(Stdio::null()).output().unwrap()
    }

    /// Runs a command, and checks its exit code and that its output contains the texts `said`. Returns the output.
    #[track_caller]
    fn check(&self, command: &str, arguments: &[&str], code: i32, said: &[&str]) -> String {
        let output = self.run(command, arguments);
        let text = output_text(&output);
        assert_eq!(output.status.code(), Some(code), "{command} {arguments:?}: {text}");
        for wanted in said {
            assert!(text.contains(wanted), "no {wanted:?}: {command} {arguments:?}: {text}");
        }
        text
    }
}

fn possible() -> bool {
    python_makes_environments() && namespaces()
}

#[test]
fn runs_wheels_with_bundled_rocm_on_the_device() {
    if !possible() {
        return;
    }
    let world = World::new();
    let torch = world.environment("t", &TORCH);
    let rock = world.environment("r", &THE_ROCK);
    let shows = format!("{USES}print('devices', count.value, status)");
    for (venv, hip) in
        [(&torch, "torch/lib/libamdhip64.so"), (&rock, "_rocm_sdk_core/lib/libamdhip64.so.7")]
    {
        let python = format!("{venv}/bin/python");
        let note = format!("brings its own HIP, {venv}/lib/");
        let said = ["devices 1 0", &note, hip, BUILD_ID];
        world.check("exec", &[&python, "-c", &shows], 0, &said);
        // The emulated device's library is loaded even if a script sets LD_PRELOAD itself, or if a child starts with an
        // empty environment.
        let script =
            format!("LD_PRELOAD=libm.so.6 {python} -c \"$0\" && env -i {python} -c \"$0\"");
        let text = world.check("exec", &["sh", "-c", &script, &shows], 0, &[]);
        assert_eq!(text.matches("devices 1 0").count(), 2, "{text}");
    }

    // A bisect over Python environments also runs on the device, and finds the failure of the second environment.
    let axis = format!("venv={torch},{rock}");
    let script = format!("{USES}assert count.value == 1 and status == 0\nassert layout == 'torch'");
    let sh = "exec $ROCREPRO_VALUE/bin/python -c \"$0\"";
    for command in [&["python", "-c", &script][..], &["sh", "-c", sh, &script]] {
        let out = world.at(command[0]).display().to_string();
        let arguments = [&["--axis", &axis, "--out", &out, "--"], command].concat();
        let found = [format!("last good   {torch}"), format!("first bad   {rock}")];
        world.check("bisect", &arguments, 0, &["AssertionError", &found[0], &found[1]]);
    }
}

#[test]
fn names_the_bundled_hip_in_results() {
    if !possible() {
        return;
    }
    let world = World::new();
    let at = world.at("wheel");
    fs::create_dir(&at).unwrap();
    let wheel = TORCH.wheel(&at, &world.stack);
    world.check("env", &["create", "a", &wheel], 0, &[]);
    let indented =
        |text: &str| text.lines().map(|line| format!("    {line}\n")).collect::<String>();
    let case = |name: &str, program: &str| {
        let text = format!(
            "title: Own HIP\nsource: [this test]\nprogram:\n  env: a\n  python: |\n    import rocrepro\n{}faults: [copy.zero]\n",
            indented(program)
        );
        let file = world.at(name).with_extension("yaml");
        fs::write(&file, text).unwrap();
        file.display().to_string()
    };
    let good = case(
        "good",
        &format!(
            "{USES}rocrepro.equal('status', status, 0)\nrocrepro.equal('count', count.value, 1)\nrocrepro.done()"
        ),
    );
    let run = |file: &str, code, said: &[&str]| {
        let records = world.at("records").display().to_string();
        let _ = fs::remove_file(&records);
        world.check("run", &["--cases-from", file, "--trust", "--record", &records], code, said);
        let text = fs::read_to_string(&records).unwrap();
        report::records(&text).unwrap().remove(0)
    };
    let place = format!("torch/lib/libamdhip64.so, build id {BUILD_ID}) on the emulated gfx1151");
    let record = run(&good, 0, &["ROCm 7.2 (bundled:", &place]);
    let stack = &record.stack;
    assert!(stack.spec.starts_with("bundled:/") && !stack.root.contains("stacks"), "{stack:?}");
    assert_eq!(stack.rocm.as_ref().map(ToString::to_string).as_deref(), Some("7.2"));
    let hip = stack.libraries.iter().find(|library| library.name == "libamdhip64.so").unwrap();
    assert_eq!(hip.build_id.as_deref(), Some(BUILD_ID));
    let shows = format!("{USES}print('devices', count.value, status)");
    world.check("exec", &["--in", "a", "python", "-c", &shows], 0, &["devices 1 0"]);

    // A program that loads another HSA runtime by its path proves nothing, whatever it reports.
    for first in ["", "rocrepro.skip('it sees no GPU')\n"] {
        let end = format!("{first}rocrepro.equal('one', 1, 1)\nrocrepro.done()");
        let past = case("past", &format!("{USES}{GOES_PAST}{end}"));
        let record = run(&past, 3, &["another HSA runtime ran next to the emulated device"]);
        assert_eq!(record.outcome.signature, "no-verdict:device");
    }
    let past = format!("{USES}{GOES_PAST}");
    world.check(
        "exec",
        &["--in", "a", "python", "-c", &past],
        0,
        &["note: process", "another HSA runtime"],
    );
}

#[test]
fn refuses_wheels_that_need_a_function_which_the_device_lacks() {
    if !possible() {
        return;
    }
    let world = World::new();
    let newer = world.environment("n", &NEWER);
    let python = format!("{newer}/bin/python");
    let names = ["torch/lib/libuses.so` needs the HSA functions hsa_of_a_later_release"];
    world.check("exec", &[&python, "-c", USES], 3, &names);
    // rocrepro cannot know in advance which Python environment a script uses, so the dynamic loader reports the missing
    // function.
    let script = format!("{python} -c \"$0\"");
    let said = ["undefined symbol: hsa_of_a_later_release"];
    world.check("exec", &["sh", "-c", &script, USES], 1, &said);
    let case = |command: &[&str]| {
        let command = serde_json::to_string(command).unwrap();
        let text = format!(
            "title: Newer\nsource: [this test]\nprogram:\n  command: {command}\n  exit: 0\nfaults: [copy.zero]\n"
        );
        let file = world.at("case.yaml");
        fs::write(&file, text.replace("$0", "$$0")).unwrap();
        file.display().to_string()
    };
    for (command, said) in [
        (&[python.as_str(), "-c", USES][..], names),
        (&["sh", "-c", &script, USES], ["the function `hsa_of_a_later_release`"]),
    ] {
        let arguments = ["--cases-from", &case(command), "--trust"];
        world.check("run", &arguments, 3, &said);
    }
    let axis = format!("venv={newer},{newer}/.");
    let out = world.at("out").display().to_string();
    let search = ["--axis", &axis, "--out", &out, "--", "python", "-c", USES];
    world.check("bisect", &search, 3, &names);
}
