//! Reports which processes have loaded this device, and whether they used it.
//!
//! A program starts with the device preloaded, so that its HSA calls reach the device even if a Python wheel contains
//! another copy of libhsa-runtime64. If the program loads that copy nevertheless, for example by `dlopen` with a path,
//! the device is never called. Therefore the device writes one report when it is initialised, and another report when
//! the process ends, unless the second report would be equal to the first.

use std::{
    ffi::OsString,
    fs::{self, File},
    io::Write as _,
    path::Path,
    sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering},
};

use device::{Identity, Mapped, RUNTIME_VARIABLE, WITNESS_VARIABLE, Witness};
use object::{
    Object as _,
    read::{ReadCache, elf::ElfFile64},
};

use crate::{config, report};

/// Prefixes of the file names of the libraries that are reported: ROCm libraries, and libraries that compile kernels.
const NAMES: [&str; 23] = [
    "libamdhip64",
    HSA,
    "libamd_comgr",
    "libhiprtc",
    "libLLVM",
    "libtriton",
    "libtorch_hip",
    "librocblas",
    "libhipblas",
    "librocsolver",
    "libhipsolver",
    "librocsparse",
    "libhipsparse",
    "librocfft",
    "libhipfft",
    "librocrand",
    "libhiprand",
    "librocalution",
    "libMIOpen",
    "libmigraphx",
    "librccl",
    "librocprofiler",
    "libroctracer",
];

/// Prefix of the file names of HSA runtimes. It includes copies that a wheel has renamed, for example
/// `libhsa-runtime64-1a2b3c4d.so.1`.
const HSA: &str = "libhsa-runtime64";

/// True after this process has initialised the device. A forked child inherits the value.
static REACHED: AtomicBool = AtomicBool::new(false);

/// Id of the process that initialised the device. A forked child has another process id.
static REACHED_BY: AtomicU32 = AtomicU32::new(0);

/// Number of ROCm libraries in the report that this process wrote when it initialised the device.
static LIBRARIES_REPORTED: AtomicUsize = AtomicUsize::new(0);

/// True after this process has reported that it uses another HSA runtime.
static OTHERS_REPORTED: AtomicBool = AtomicBool::new(false);

/// Function that runs when the process ends, after the `atexit` handlers.
#[used]
#[unsafe(link_section = ".fini_array")]
static AT_EXIT: extern "C" fn() = ended;

/// Writes the report that this process has initialised the device.
pub(crate) fn initialised(identity: &Identity) {
    REACHED.store(true, Ordering::SeqCst);
    let found = Found::current();
    REACHED_BY.store(std::process::id(), Ordering::SeqCst);
    LIBRARIES_REPORTED.store(found.libraries.len(), Ordering::SeqCst);
    let witness = found.witness(identity, true);
    if !write(&witness) {
        if let (Some(hip), Ok(requested)) = (witness.hip(), std::env::var(RUNTIME_VARIABLE))
            && !requested.is_empty()
            && hip.build_id.as_deref() != Some(requested.as_str())
        {
            let (path, build_id) = (&hip.path, hip.build_id.as_deref().unwrap_or("none"));
            report::note(format_args!(
                "the program brings its own HIP, {path} (build id {build_id}); the libamdhip64 of the requested stack does not run"
            ));
        }
        found.report_others();
    }
    OTHERS_REPORTED.store(!found.others.is_empty(), Ordering::SeqCst);
}

extern "C" fn ended() {
    let reached = REACHED.load(Ordering::SeqCst);
    if reached && OTHERS_REPORTED.load(Ordering::SeqCst) {
        return;
    }
    let found = Found::current();
    // The command `rocrepro` is linked with this crate, too. In the command and in its workers, this function must do
    // nothing.
    if !found.is_device {
        return;
    }
    let hip = found.libraries.iter().find(|path| name_of(path).starts_with(NAMES[0]));
    if found.others.is_empty() && (reached || hip.is_none()) {
        let is_own = REACHED_BY.load(Ordering::SeqCst) == std::process::id();
        if is_own && found.libraries.len() > LIBRARIES_REPORTED.load(Ordering::SeqCst) {
            // A program may load a library, for example the compiler, after it has initialised the device.
            write(&found.witness(&config::identity(), true));
        }
        return;
    }
    if write(&found.witness(&config::identity(), reached)) {
        return;
    }
    found.report_others();
    // A worker may end before it needs the device, for example if the stack does not contain a library that the case
    // uses.
    let is_program = std::env::var_os(RUNTIME_VARIABLE).is_some();
    if let (Some(hip), false, true) = (hip, reached, is_program) {
        let pid = std::process::id();
        report::note(format_args!(
            "process {pid} loaded {hip} and never reached the emulated device: it ran nothing on it"
        ));
    }
}

/// Returns true if this crate runs as the device library, and false if it is linked into a program such as `rocrepro`.
pub(crate) fn is_in_device() -> bool {
    Found::current().is_device
}

/// Appends a line to the file that [`WITNESS_VARIABLE`] names. Errors are ignored: without the line, rocrepro does not
/// accept the result of the run. Returns false if the variable is not set.
fn write(witness: &Witness) -> bool {
    let Some(file) = std::env::var_os(WITNESS_VARIABLE) else { return false };
    append(file, witness);
    true
}

fn append(file: OsString, witness: &Witness) {
    let Ok(mut line) = serde_json::to_string(witness) else { return };
    line.push('\n');
    // A single write keeps lines apart, because other processes of the program may append at the same time.
    let opened = File::options().append(true).create(true).open(file);
    let _ = opened.and_then(|mut file| file.write_all(line.as_bytes()));
}

/// Paths of the ROCm libraries that are mapped in this process.
#[derive(Debug, Default, PartialEq, Eq)]
struct Found {
    /// True if this crate runs as the device library, and false if it is linked into a program such as `rocrepro`.
    is_device: bool,
    libraries: Vec<String>,
    /// HSA runtimes other than this device.
    others: Vec<String>,
}

impl Found {
    fn current() -> Found {
        let maps = fs::read_to_string("/proc/self/maps").unwrap_or_default();
        Found::read(&maps, ended as *const () as usize)
    }

    /// Parses the contents of `/proc/PID/maps`. The device library is the file that is mapped at the address `own`.
    fn read(maps: &str, own: usize) -> Found {
        let own = maps.lines().filter_map(Mapping::read).find(|mapping| mapping.holds(own));
        let is_device = own.as_ref().is_some_and(|own| name_of(own.path).starts_with(HSA));
        let own = own.map(|mapping| mapping.file);
        let mut found = Found { is_device, ..Found::default() };
        for mapping in maps.lines().filter_map(Mapping::read) {
            let (path, name) = (mapping.path.to_owned(), name_of(mapping.path));
            if !NAMES.iter().any(|start| name.starts_with(start)) {
                continue;
            }
            // A file that is mapped only for reading is not used as a runtime. For example, a tool that lists symbols
            // maps files in this way.
            let runs = mapping.permissions.contains('x');
            if name.starts_with(HSA)
                && runs
                && own.is_some_and(|own| own != mapping.file)
                && !found.others.contains(&path)
            {
                found.others.push(path.clone());
            }
            if !found.libraries.contains(&path) {
                found.libraries.push(path);
            }
        }
        found
    }

    fn witness(&self, identity: &Identity, reached: bool) -> Witness {
        let mapped = |paths: &[String]| paths.iter().map(|path| mapped(path)).collect();
        Witness {
            pid: std::process::id(),
            identity: identity.clone(),
            reached,
            libraries: mapped(&self.libraries),
            others: mapped(&self.others),
        }
    }

    fn report_others(&self) {
        for other in &self.others {
            let pid = std::process::id();
            report::note(format_args!(
                "process {pid} has another HSA runtime next to the emulated device, {other}: its callers see no device"
            ));
        }
    }
}

/// A line of `/proc/PID/maps` that contains a path; see proc_pid_maps(5).
struct Mapping<'a> {
    range: (usize, usize),
    permissions: &'a str,
    /// Device and inode.
    file: (&'a str, &'a str),
    path: &'a str,
}

impl Mapping<'_> {
    fn read(line: &str) -> Option<Mapping<'_>> {
        let path = &line[line.find('/')?..];
        let mut words = line.split_ascii_whitespace();
        let (range, permissions) = (words.next()?, words.next()?);
        let (start, end) = range.split_once('-')?;
        let address = |text| usize::from_str_radix(text, 16).ok();
        let file = (words.nth(1)?, words.next()?);
        Some(Mapping { range: (address(start)?, address(end)?), permissions, file, path })
    }

    fn holds(&self, address: usize) -> bool {
        (self.range.0..self.range.1).contains(&address)
    }
}

fn name_of(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or_default()
}

fn mapped(path: &str) -> Mapped {
    let (name, build_id) = (name_of(path).to_owned(), build_id(Path::new(path)));
    Mapped { name, path: path.to_owned(), build_id }
}

/// Reads the GNU build id of a file without reading the whole file; `None` if the file has no build id or cannot be
/// read.
fn build_id(path: &Path) -> Option<String> {
    let cache = ReadCache::new(File::open(path).ok()?);
    let file = ElfFile64::<object::Endianness, _>::parse(&cache).ok()?;
    let id = file.build_id().ok()??;
    Some(id.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_rocm_libraries_and_other_hsa_runtimes() {
        let maps = "7f00-7f10 r--p 00000000 00:2a 1                /usr/lib/libamdhip64.so.7\n\
                    7f10-7f20 r-xp 00010000 00:2a 1                /usr/lib/libamdhip64.so.7\n\
                    7f20-7f30 rw-p 00000000 00:00 0 \n\
                    7f30-7f40 r--p 00000000 00:2a 2                /usr/lib/libc.so.6\n\
                    7f40-7f50 r-xp 00000000 00:2a 3                /a/libhsa-runtime64.so.1\n\
                    7f50-7f60 r-xp 00000000 00:2a 3                /b/libhsa-runtime64.so.1\n\
                    7f60-7f70 r-xp 00000000 00:2b 3                /torch/lib/libhsa-runtime64.so\n\
                    7f70-7f80 r-xp 00000000 00:2a 4                /x.libs/libhsa-runtime64-1a2b.so.1\n\
                    7f80-7f90 r--p 00000000 00:2a 5                /only/read/libhsa-runtime64.so.1\n";
        let found = Found::read(maps, 0x7f44);
        assert_eq!(found.libraries.len(), 6, "{found:?}");
        assert_eq!(found.libraries[0], "/usr/lib/libamdhip64.so.7");
        let others = ["/torch/lib/libhsa-runtime64.so", "/x.libs/libhsa-runtime64-1a2b.so.1"];
        assert_eq!(found.others, others);
        assert!(found.is_device);
        assert!(
            !Found::read(maps, 0x7f34).is_device,
            "an address in libc is not in the device library"
        );
        assert_eq!(Found::read("", 0), Found::default());
    }

    #[test]
    fn file_without_build_id() {
        let file = tempfile::NamedTempFile::new().unwrap();
        assert_eq!(build_id(file.path()), None);
        let own = std::env::current_exe().unwrap();
        // The linker may not write a build id. If it does, the build id has at least 16 digits.
        assert!(build_id(&own).is_none_or(|id| id.len() >= 16));
    }
}
